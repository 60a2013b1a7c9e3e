"""What a run has taken so far, attempt by attempt, and how much of that was in vain. Torch-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.store import Kind, RunState, Store
from harness.store.owner import Owner
from harness.store.record import RunRecord, is_imported

FAILURES = ("oom", "timeout", "error")


@dataclass(frozen=True)
class Stint:
    """The time of one attempt.

    Attributes:
        seconds: from its begin to its end, or to its last sign of life.
        lost: of them, those of steps that a later attempt made again, or of an attempt without a result.
        failed: whether it ended in a failure, so that what is lost is so by that.
        job: its job; empty outside of jobs. None: the record, which does not tell, stands for the attempt.
    """

    seconds: float
    lost: float = 0.0
    failed: bool = False
    job: str | None = ""


def stints(store: Store, key: str, state: RunState) -> list[Stint]:
    """The attempts at a run; none of a run that others made.

    A finished run of one attempt is told by its record, in whole seconds: nobody opens ten thousand files.
    """
    record = state.record
    if record is not None and is_imported(record.config):
        return []
    if record is not None and record.attempts == 1 and record.began and record.ended:
        return [Stint(_seconds(record), job=None)]
    number = record.attempts if record is not None else state.attempts
    attempts = [store.attempt(key, n) for n in range(1, number + 1)]
    walls = [_wall(store, key, n, attempts) for n in range(number)]
    return [_stint(n, attempts, walls[n], state) for n in range(number) if "began" in attempts[n]]


def _seconds(record: RunRecord) -> float:
    began, ended = map(datetime.fromisoformat, (record.began, record.ended))
    return max(0.0, (ended - began).total_seconds())


def _wall(store: Store, key: str, place: int, attempts: Sequence[dict[str, Any]]) -> float:
    """Seconds of an attempt; one that did not note its end lasted until its last heartbeat."""
    attempt = attempts[place]
    if "began" not in attempt:  # damaged
        return 0.0
    ended = attempt.get("ended")
    if ended is None:
        later = (one["began"] for one in attempts[place + 1 :] if "began" in one)
        try:
            ended = min([store.files(key).attempt(place + 1).stat().st_mtime, *later])
        except OSError:
            return 0.0
    return max(0.0, float(ended) - float(attempt["began"]))


def _stint(place: int, attempts: Sequence[dict[str, Any]], wall: float, state: RunState) -> Stint:
    attempt = attempts[place]
    owner = Owner.from_json(attempt.get("owner"))
    is_last = place == len(attempts) - 1
    reason = (attempt.get("outcome") or {}).get("reason", "")
    failed = reason in FAILURES or (is_last and state.kind is Kind.FAILED)
    lost = float(failed) if is_last else _lost(attempt, attempts[place + 1 :])
    return Stint(wall, lost * wall, failed, owner.job if owner else "")


def _lost(attempt: dict[str, Any], later: Sequence[dict[str, Any]]) -> float:
    """The share of an attempt's steps that later ones made again; 1 if it made none.

    The next attempt notes where it starts and how many steps of the curve it makes again: together that is
    how far this one came. What lies after the start of any later one was lost.
    """
    start = attempt.get("start_step", 0)  # version 0.1 does not note it
    started = [one for one in later if one.get("start_step") is not None]
    if start is None:
        return 1.0
    if not started:
        return 0.0
    made = started[0]["start_step"] + started[0].get("repeats", 0) - start
    kept = min(one["start_step"] for one in started) - start
    return 1.0 - max(0.0, kept) / made if made > 0 else 1.0
