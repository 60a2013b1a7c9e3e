"""Runs sweeps on this machine.

It decides which point starts next, waits for points that other processes work on, and plans replicas when all
search points of their objective are settled: before the first of them starts, they are in the store's plan. A
settled point needs no more work: it has a result, has
failed, or was given up after several killed workers.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from harness.store import Kind, RunState, Store
from harness.store import points as plans
from harness.store.record import RunRecord
from harness.train.monitor import handle
from sweeps.plan.planned import Planned, by_objective, filled, search_points
from sweeps.plan.replicas import replicas
from sweeps.plan.states import ended, state
from sweeps.plan.stored import write_plan
from sweeps.run.pool import Pool
from sweeps.run.progress import Progress
from sweeps.spec.sweep import SweepSpec
from sweeps.studies import refresh

POLL_SECONDS = 0.2
MOST_DEATHS = 3  # a point is queued again at most so often after a signal killed its worker
STUDY_SECONDS = 5.0  # least time between two refreshes of the studies while runs are active


class Sweep:
    """The state of one sweep during the command: its points, the settled ones, and the replicas so far."""

    def __init__(self, spec: SweepSpec, store: Store) -> None:
        self.spec, self.store = spec, store
        self.search = search_points(spec)
        self.groups = by_objective(spec, self.search)
        self.replicas: dict[int, list[Planned]] = {}  # by objective
        self.settled: dict[str, RunRecord | None] = {}
        self._open = {i: {one.point.id for one in group} for i, group in enumerate(self.groups)}
        self._written: list[Planned] = []

    @property
    def planned(self) -> list[Planned]:
        """All points known so far. The slots of a search are in it as planned, without settings."""
        return self.search + [one for i in sorted(self.replicas) for one in self.replicas[i]]

    def steps_left(self) -> int:
        """The number of updates that are left, with an estimate for replicas that are not known yet."""
        steps = {one.point.id: one.config.steps or 0 for one in self.planned}
        unknown = len(self._open) * self.spec.fresh_seeds
        known = sum(count for name, count in steps.items() if name not in self.settled)
        return known + unknown * (self.search[0].config.steps or 0)

    def settle(self, name: str, record: RunRecord | None) -> list[Planned]:
        """Note the record of the point with id `name` (None: none); return the replicas that are now due."""
        self.settled[name] = record
        due = []
        for i in [i for i, names in self._open.items() if name in names]:
            self._open[i].discard(name)
            if not self._open[i]:
                del self._open[i]
                group = filled(self.store.root, self.groups[i])
                settled = {one.point.key: self.settled[one.point.id] for one in group}
                records = {key: record for key, record in settled.items() if record is not None}
                self.replicas[i] = replicas(self.spec, group, records)
                due += self.replicas[i]
        return due

    def write(self, *, replace: bool = True) -> None:
        """Write the points known so far into the store as the plan, if there are new ones.

        Args:
            replace: whether stored points that the file lacks may be dropped; it matters for the first time.
        """
        if self.planned != self._written:
            self._written = self.planned
            write_plan(self.store.root, self.spec, self.planned, replace=replace)

    def refresh_studies(self, *, under_way: bool = False) -> None:
        """Bring the Optuna studies up to date. Those of a running search are updated by its workers."""
        if self.spec.search.is_grid or not under_way:
            refresh.refresh(self.store, self.spec, self.planned)


class Runner:
    """Runs all points of some sweeps on a pool until every one is settled, here or by another process.

    Args:
        store: of the runs.
        specs: the sweeps.
        workers: processes at a time; None: the default of `Pool`.
        progress: shows the progress of the runs.
        replace: whether the sweeps may drop stored points that their files lack.

    Attributes:
        interrupted: whether SIGINT, SIGTERM or SIGHUP has arrived.
        unfinished: ids of points without a result, and the reason of each.
    """

    def __init__(
        self,
        store: Store,
        specs: Sequence[SweepSpec],
        workers: int | None,
        progress: Progress,
        *,
        replace: bool = False,
    ) -> None:
        self.store, self.workers, self.progress, self.replace = store, workers, progress, replace
        self.sweeps = [Sweep(spec, store) for spec in specs]
        self.interrupted = False
        self.unfinished: dict[str, str] = {}
        self._known: set[str] = set()
        self._todo: deque[Planned] = deque()
        self._at_work: dict[str, Planned] = {}
        self._elsewhere: dict[str, Planned] = {}  # another process works on these
        self._deaths: Counter[str] = Counter()
        self._studies_due = 0.0

    def run(self) -> None:
        """Run all points that are not settled. Afterwards `unfinished` has the points without a result.

        Raises:
            UsageError: a sweep would drop stored points, and may not.
        """
        for sweep in self.sweeps:
            self._enqueue(sweep.search)
        for sweep in self.sweeps:
            sweep.write(replace=self.replace)
            if not sweep.spec.search.is_grid:
                sweep.refresh_studies()  # so that the first trial is sampled from all results
        self.progress.expect(sum(sweep.steps_left() for sweep in self.sweeps))
        if self._todo:
            with self._interruptible():
                searches = any(not sweep.spec.search.is_grid for sweep in self.sweeps)
                self._work(Pool(self.store.root, self.workers, ["sweeps.studies.trial"] if searches else []))
        for sweep in self.sweeps:
            sweep.write()
            sweep.refresh_studies()
        self.progress.close()

    def _enqueue(self, planned: Sequence[Planned]) -> None:
        """Queue points that are not settled. If settled ones complete an objective, queue its replicas."""
        # Two blocks may want the same run.
        new = list({one.point.id: one for one in planned if one.point.id not in self._known}.values())
        if not new:  # the usual case; the lines below read the whole index
            return
        self._known.update(one.point.id for one in new)
        records = ended(self.store, [one.point for one in filled(self.store.root, new)])
        for one in new:
            if one.point.id in records:
                self._settle(one, records[one.point.id])
            else:
                self._todo.append(one)

    def _settle(self, one: Planned, record: RunRecord | None, why: str = "") -> None:
        if why:
            self.unfinished[one.point.id] = why
        for sweep in self.sweeps:
            self._enqueue(sweep.settle(one.point.id, record))

    def _work(self, pool: Pool) -> None:
        while self._todo or self._at_work or self._elsewhere:
            for sweep in self.sweeps:
                sweep.write()
            while self._todo and pool.has_room_for(self._todo[0].config.processes) and not self.interrupted:
                self._start(self._todo.popleft(), pool)
            for key, status in pool.finished(timeout=POLL_SECONDS):
                self._ended(self._at_work.pop(key), status)
            if self.interrupted:
                pool.stop()
                return
            for one in list(self._elsewhere.values()):
                if self._check_point(one).kind is Kind.WAITING:
                    self._todo.append(one)
            if not self._at_work and not self._todo:
                time.sleep(POLL_SECONDS)
            self.progress.at(pool.steps_done())
            self._refresh_studies_when_due()

    def _start(self, one: Planned, pool: Pool) -> None:
        if self._check_point(one).kind is Kind.WAITING:
            self._at_work[one.point.id] = one
            pool.start(one.point, one.config.processes)

    def _check_point(self, one: Planned) -> RunState:
        """Return a point's state. Settle it if it has ended; remember it if another process works on it."""
        point = plans.filled(self.store.root, one.point)
        now = state(self.store, point)
        self._elsewhere.pop(point.id, None)
        if now.kind is Kind.LIVE:
            self._elsewhere[point.id] = one
        elif now.kind is not Kind.WAITING:
            self._settle(one, now.record, f"failed ({now.reason}): {now.message}" if now.reason else "")
            left = sum(sweep.steps_left() for sweep in self.sweeps)
            self.progress.ended(point, now, one.config.steps or 0, left)
        return now

    def _ended(self, one: Planned, status: int) -> None:
        """Handle the end of a worker: settle its point, or queue it again if the worker was killed."""
        now = self._check_point(one)
        if now.kind is not Kind.WAITING or self.interrupted:
            return
        self._deaths[one.point.id] += 1
        if status < 0 and self._deaths[one.point.id] <= MOST_DEATHS:
            self._todo.appendleft(one)
        else:
            message = now.message or f"its process ended with status {status}"
            self._settle(one, None, f"unfinished: {message}")

    def _refresh_studies_when_due(self) -> None:
        if time.monotonic() >= self._studies_due:
            began = time.monotonic()
            for sweep in self.sweeps:
                sweep.refresh_studies(under_way=True)
            self._studies_due = time.monotonic() + max(STUDY_SECONDS, 20 * (time.monotonic() - began))

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let signals set `interrupted`. The loop then stops the workers, which save first."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.interrupted = True

        previous = handle(stop, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
