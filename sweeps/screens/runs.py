"""The runs at work and those that failed, for `sweep status`: how far, where, why, and where the log is."""

import contextlib
import functools
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config import RunConfig
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.from_runs import LOOKED_AT, from_pace, from_store
from htbench.harness.cost.run_class import Cost, RunClass, count_steps, run_class
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import pairs
from htbench.harness.show.status import LEFT, Status
from htbench.harness.store import Reason, RunState, Store, curve, submissions
from htbench.harness.store.layout import cache_folder
from htbench.harness.store.owner import STALE_SECONDS, Owner, seconds_since_touched
from htbench.harness.store.points import SEED_FIELDS, Point, is_tuned
from htbench.harness.store.submissions import Submission
from htbench.harness.train.progress import warm_up
from htbench.sweeps.cluster.job_log import log_path
from htbench.sweeps.cluster.queue import log_folder
from htbench.sweeps.plan.planned import describe
from htbench.sweeps.screens.objectives import select_searched
from htbench.sweeps.spec.sweep import SweepSpec

MOST_NODES = 4  # in a line


@dataclass(frozen=True)
class AtWork:
    """A run under way.

    Attributes:
        key, point: of the run; the point in words.
        block, setting: what tells it from others: its block, what was searched, and its seed.
        step, steps: that it has reached, of the whole run; None if not known.
        host, job: where it is; empty if not known.
        attempt: from 1.
        silent_seconds: since its last sign of life; None if its heartbeat is gone.
    """

    key: str
    point: str
    step: int
    steps: int | None
    host: str
    job: str
    attempt: int
    silent_seconds: int | None = None
    block: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_silent(self) -> bool:
        """Whether it has stalled: its process exists or its job runs, but it gives no sign of life."""
        return (self.silent_seconds or 0) > STALE_SECONDS

    def make_note(self) -> Note:
        """A line of the screen."""
        is_local = not self.job and self.host == socket.gethostname()
        fields = {"host": "" if is_local else self.host or "an unknown host", "steps": self.steps or "?"}
        fields |= {"attempt": self.attempt if self.attempt > 1 else 0, "setting": pairs(self.setting)}
        return Note("at_work", **vars(self) | fields, silent=self.silent_seconds if self.is_silent else 0)


@dataclass(frozen=True)
class Failed:
    """A run that failed.

    Attributes:
        key, point: of the run; the point in words.
        reason: of the failure.
        message: of the exception.
        host, job: where it was; empty if not known.
        attempt: from 1.
        log: what it printed to in its job, else its own.
    """

    key: str
    point: str
    reason: Reason
    message: str
    host: str
    job: str
    attempt: int
    log: str


class RunReader:
    """Reads the facts of runs from their folders, and keeps what it has read for all of them.

    Args:
        store: the store.

    Attributes:
        estimator: of the steps and the time that runs take.
    """

    def __init__(self, store: Store) -> None:
        self._store, self.estimator = store, Estimator(store)
        self._clock_ahead: float | None = None

    def read_at_work(self, spec: SweepSpec, point: Point, state: RunState) -> AtWork:
        """The facts of a run at work."""
        owner, files, silent_seconds = state.owner, self._store.files(point.key), None
        heartbeat = files.attempt(state.attempts)
        with contextlib.suppress(OSError):  # the heartbeat is gone
            touched = os.stat(heartbeat).st_mtime
            if self._clock_ahead is None:  # the clock of the file server is asked once
                self._clock_ahead = seconds_since_touched(heartbeat) + touched - time.time()
            silent_seconds = max(0, round(time.time() + self._clock_ahead - touched))
        return AtWork(
            point.key,
            describe(point),
            curve.last_step(files.metrics),
            self.estimator.count_steps(point),
            owner.host if owner else "",
            owner.job if owner else "",
            state.attempts,
            silent_seconds,
            point.block,
            select_searched(spec, point) | {k: v for k, v in point.overrides.items() if k == "seed"},
        )

    def read_failure(self, point: Point, state: RunState) -> Failed:
        """The facts of a run that failed."""
        assert state.reason  # a failed run has one
        owner = Owner.from_json(self._store.attempt(point.key, state.attempts).get("owner"))
        host, job = (owner.host, owner.job) if owner else ("", "")
        log, array = self._store.files(point.key).log, self._arrays.get(job.partition("_")[0])
        if array is not None:
            job_log = log_path(log_folder(self._store.root, array), job)
            log = job_log if job_log.exists() else log
        return Failed(
            point.key, describe(point), state.reason, state.message, host, job, state.attempts, str(log)
        )

    @functools.cached_property
    def _arrays(self) -> dict[str, Submission]:
        """The arrays by their ids; read only if a run has failed."""
        return {array.job: array for array in submissions.read_all(self._store.root) if array.job}


def note_failures(failures: Iterable[Failed], most: int) -> list[Note]:
    """At most so many lines: failures that differ in their numbers only share one, most frequent first."""
    alike = grouped(failures, lambda failure: (failure.reason, re.sub(r"\d+", "#", failure.message)))
    groups, notes = sorted(alike.values(), key=len, reverse=True), list[Note]()
    for group in groups[:most]:
        nodes = Counter(failure.host or "an unknown host" for failure in group).most_common()
        names = [f"{node} ({n})" if len(nodes) > 1 else node for node, n in nodes[:MOST_NODES]]
        message, more = " ".join(group[0].message.split()), max(0, len(nodes) - MOST_NODES)
        fields = vars(group[0]) | {"runs": len(group), "message": message, "nodes": names, "more": more}
        notes.append(Note("failed_alike" if len(group) > 1 else "failed_alone", **fields))
    hidden = sum(map(len, groups[most:]))
    return [*notes, *([Note("more_failed", runs=hidden)] if hidden else [])]


# --- the time that is left ---


LONG = 10_000  # steps of a run whose steps nobody knows
_WITHOUT_COST = {"data_fingerprint": "-", "revisions.loop": 1}  # to find the true values takes long


class Estimator:
    """Estimates times from finished runs of the same class, or from runs at work.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.paces: dict[RunClass, Cost | None] = {}
        self.configs: dict[tuple[str, ...], tuple[RunConfig, RunClass] | None] = {}

    @functools.cached_property
    def finished(self) -> dict[RunClass, Cost]:
        """Costs from all finished runs of the store, read only if a run is not finished."""
        return from_store(self.store)

    def count_steps(self, point: Point) -> int | None:
        """Updates of a point's run; None if unknown."""
        resolved = self._resolve(point)
        return None if resolved is None else count_steps(resolved[0], cache_folder(self.store.root))

    def sum_seconds(self, points: Sequence[tuple[Point, RunState]]) -> float | None:
        """Seconds of one worker for the points that are not settled; None if unknown."""
        total = 0.0
        for point, state in points:
            if state.status not in LEFT:
                continue
            if (resolved := self._resolve(point)) is None:
                return None
            config, kind = resolved
            cost, steps = self._find_cost(config, kind, points), self.count_steps(point)
            if cost is None or steps is None:
                return None
            files = self.store.files(point.key)
            goes_on = state.attempts and (state.status is Status.RUNNING or files.checkpoint.exists())
            step = min(steps, curve.last_step(files.metrics)) if goes_on else 0
            total += cost.seconds(config, steps) * (1 - step / steps)
        return total

    def _find_cost(
        self, config: RunConfig, kind: RunClass, points: Sequence[tuple[Point, RunState]]
    ) -> Cost | None:
        if kind in self.finished:
            return self.finished[kind]
        if kind not in self.paces:
            at_work = [self.store.files(p.key) for p, state in points if state.status is Status.RUNNING]
            self.paces[kind] = from_pace(at_work[:LOOKED_AT], warm_up(config.steps or LONG))
        return self.paces[kind]

    def _resolve(self, point: Point) -> tuple[RunConfig, RunClass] | None:
        """A config that costs as much as the point's, made once for all that differ in tuned numbers."""
        unseeded = {k: v for k, v in point.overrides.items() if k not in SEED_FIELDS}
        shape = tuple(f"{k}={v}" for k, v in unseeded.items() if not (is_tuned(k) and isinstance(v, float)))
        if shape not in self.configs:
            try:
                config = resolve_config({**point.overrides, **_WITHOUT_COST})
                self.configs[shape] = config, run_class(config)
            except UsageError:  # planned by another version of the code
                self.configs[shape] = None
        return self.configs[shape]
