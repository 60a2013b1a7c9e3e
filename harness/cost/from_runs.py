"""What runs took, by the records and attempts of finished runs or of runs at work. Torch-free."""

import contextlib
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from htbench.harness.cost.run_class import Cost, RunClass, passes, processor, run_class
from htbench.harness.store import RunState, Store, curve
from htbench.harness.store.owner import Owner
from htbench.harness.store.record import RunRecord
from htbench.harness.store.run_folder import RunFolder

LOOKED_AT = 20  # so many of the latest runs of a class are enough

# --- what a run of a class takes ---


def from_store(store: Store) -> dict[RunClass, Cost]:
    """What the finished runs of a store tell, by class."""
    return from_records(store, (record for _, record in store.index.rows().values()))


def from_records(store: Store, records: Iterable[RunRecord]) -> dict[RunClass, Cost]:
    """What finished runs tell, by class. Of several processors the one with most runs counts."""
    records_by_class: dict[tuple[RunClass, str], list[RunRecord]] = {}
    for record in records:
        is_counted = record.config.get("program") or (record.steps and "parameters" in record.cost)
        if record.status == "completed" and is_counted:
            records_by_class.setdefault((run_class(record.config), processor(record)), []).append(record)
    costs: dict[RunClass, Cost] = {}
    for (kind, where), records_of_class in sorted(records_by_class.items(), key=lambda item: len(item[1])):
        latest = records_of_class[-LOOKED_AT:]
        last = latest[-1]
        is_program = bool(last.config.get("program"))  # whose updates nobody knows: a run counts as one
        seconds = [one.useful_seconds / (1 if is_program else one.steps) for one in records_of_class]
        costs[kind] = Cost(
            step=statistics.median(seconds),
            evaluation=0.0 if is_program else _evaluation(store, latest),
            peak_memory=max(record.peak_memory for record in latest),
            gpu="gpu" in last.environment,
            parameters=int(last.cost.get("parameters", 0)),
            processor=where,
            runs=len(records_of_class),
        )
    return costs


def _evaluation(store: Store, records: Sequence[RunRecord]) -> float:
    """Seconds per pass over held-out data, with its share of all that is no step.

    A record counts the seconds of steps only; how long its run took stands in its attempt.
    """
    rests = []
    for record in records:
        wall = wall_seconds(store.files(record.key), record)
        if wall is not None:
            evaluation = record.config.get("evaluation") or {}
            evaluations = passes(record.steps, evaluation.get("every", 0), bool(evaluation.get("untrained")))
            rests.append((wall - record.useful_seconds) / evaluations)
    return max(0.0, statistics.median(rests)) if rests else 0.0


def wall_seconds(files: RunFolder, record: RunRecord) -> float | None:
    """Seconds between the begin and the end of a finished run; None unless one attempt made all of it.

    Without the attempt, as after an import, the record tells them in whole seconds.
    """
    if record.attempts != 1:
        return None
    attempt = files.read_attempt(1)
    if attempt.get("start_step") is not None and attempt.get("ended") is not None:
        return float(attempt["ended"] - attempt["began"])
    return _seconds(record)


def _seconds(record: RunRecord) -> float | None:
    if not (record.began and record.ended):
        return None
    began, ended = map(datetime.fromisoformat, (record.began, record.ended))
    return max(0.0, (ended - began).total_seconds())


def from_pace(runs: Iterable[RunFolder], warm_up: int = 0) -> Cost | None:
    """The time of a step, with its share of all the rest, by runs at work; None if they have just begun.

    Args:
        runs: at work.
        warm_up: the first steps of a process; one that has made no more tells nothing.
    """
    paces = [seconds for files in runs if (seconds := pace(files, warm_up)) is not None]
    return Cost(statistics.median(paces), runs=len(paces)) if paces else None


def pace(files: RunFolder, warm_up: int = 0) -> float | None:
    """Seconds per step of the last attempt at a run; None if it has made no step after its warm-up."""
    attempt = files.read_attempt(files.last_attempt())
    start = attempt.get("start_step")
    if start is None or "began" not in attempt or not files.metrics.exists():
        return None
    steps = curve.last_step(files.metrics) - int(start)
    seconds = files.metrics.stat().st_mtime - float(attempt["began"])
    return seconds / steps if steps > warm_up else None


# --- what a run has taken so far ---


@dataclass(frozen=True)
class Stint:
    """The time of one attempt.

    Attributes:
        seconds: from its begin to its end, or to its last sign of life.
        job: its job; empty outside of jobs. None: the record, which does not tell, stands for the attempt.
    """

    seconds: float
    job: str | None = ""


def stints(store: Store, key: str, state: RunState) -> list[Stint]:
    """The attempts at a run.

    A finished run of one attempt is told by its record, in whole seconds: nobody opens ten thousand files.
    """
    record = state.record
    if record is not None and record.attempts == 1 and (seconds := _seconds(record)) is not None:
        return [Stint(seconds, job=None)]
    number = record.attempts if record is not None else state.attempts
    attempts = [store.attempt(key, n) for n in range(1, number + 1)]
    finished_stints = []
    for place, attempt in enumerate(attempts):
        if "began" in attempt:  # it is not damaged
            owner = Owner.from_json(attempt.get("owner"))
            ended = attempt.get("ended")
            if ended is None:  # it lasted until its last heartbeat
                later = [other["began"] for other in attempts[place + 1 :] if "began" in other]
                with contextlib.suppress(OSError):
                    ended = min([store.files(key).attempt(place + 1).stat().st_mtime, *later])
            seconds = 0.0 if ended is None else max(0.0, float(ended) - float(attempt["began"]))
            finished_stints.append(Stint(seconds, owner.job if owner else ""))
    return finished_stints
