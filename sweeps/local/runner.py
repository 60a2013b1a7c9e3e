"""Runs sweeps on this machine: which point is next, who waits for other processes, when replicas are due."""

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
from sweeps.local.pool import Pool
from sweeps.local.progress import Progress
from sweeps.plan.planned import Planned, by_objective, filled, search_points, write_plan
from sweeps.plan.replicas import replicas
from sweeps.plan.states import ended, state
from sweeps.spec.sweep import SweepSpec
from sweeps.studies import refresh

POLL_SECONDS = 0.2
MOST_DEATHS = 3  # of a run's processes before they own the run; then it is given up
STUDY_SECONDS = 5.0  # at least this long between two refreshes of a study while runs are under way


class Sweep:
    """A sweep under way: its points, which of them are settled, and the replicas that follow from them."""

    def __init__(self, spec: SweepSpec, store: Store) -> None:
        self.spec, self.store = spec, store
        self.search = search_points(spec)
        self.groups = by_objective(spec, self.search)
        self.replicas: dict[int, list[Planned]] = {}  # by objective
        self.settled: dict[str, RunRecord | None] = {}
        self._open = {i: {one.point.id for one in group} for i, group in enumerate(self.groups)}

    @property
    def planned(self) -> list[Planned]:
        """All points known so far; slots of a search as planned, empty."""
        return self.search + [one for i in sorted(self.replicas) for one in self.replicas[i]]

    def steps_left(self) -> int:
        """Updates still to make, with those of the replicas that are not known yet."""
        steps = {one.point.id: one.config.steps or 0 for one in self.planned}
        unknown = len(self._open) * self.spec.fresh_seeds
        known = sum(count for name, count in steps.items() if name not in self.settled)
        return known + unknown * (self.search[0].config.steps or 0)

    def settle(self, name: str, record: RunRecord | None) -> list[Planned]:
        """Note how the point `name` ended (None: without a result); returns the replicas that are due now."""
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

    def write(self) -> None:
        """Put the plan as it stands into the store."""
        write_plan(self.store.root, self.spec, self.planned)

    def refresh_studies(self, *, under_way: bool = False) -> None:
        """Bring the Optuna studies up to date. While a search is under way, its workers do that."""
        if self.spec.search.is_grid or not under_way:
            refresh.refresh(self.store, self.spec, self.planned)


class Runner:
    """Runs all points of some sweeps on a pool until every one is settled, here or by another process.

    Args:
        store: where the runs live.
        specs: the sweeps.
        workers: processes at a time; None: as many as make sense.
        progress: shows how far the runs are.
    """

    def __init__(
        self, store: Store, specs: Sequence[SweepSpec], workers: int | None, progress: Progress
    ) -> None:
        self.store, self.workers, self.progress = store, workers, progress
        self.sweeps = [Sweep(spec, store) for spec in specs]
        self.interrupted = False
        self.unfinished: dict[str, str] = {}  # run -> why it has no record
        self._known: set[str] = set()
        self._todo: deque[Planned] = deque()
        self._at_work: dict[str, Planned] = {}
        self._elsewhere: dict[str, Planned] = {}  # another process works on these
        self._deaths: Counter[str] = Counter()
        self._studies_due = 0.0

    def run(self) -> None:
        """Do all that is left to do; afterwards `unfinished` says what has no result and why."""
        for sweep in self.sweeps:
            self._enqueue(sweep.search)
        for sweep in self.sweeps:
            sweep.write()
            if not sweep.spec.search.is_grid:
                sweep.refresh_studies()  # so that the first draw knows all results
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
        """Queue points that are not settled. Settled ones may make replicas due, which are queued, too."""
        # Two blocks may want the same run.
        new = list({one.point.id: one for one in planned if one.point.id not in self._known}.values())
        if not new:  # as after most runs; the lines below read the whole index
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
            while self._todo and pool.has_room_for(self._todo[0].config.processes) and not self.interrupted:
                self._start(self._todo.popleft(), pool)
            for key, status in pool.finished(timeout=POLL_SECONDS):
                self._ended(self._at_work.pop(key), status)
            if self.interrupted:
                pool.stop()
                return
            for one in list(self._elsewhere.values()):
                if self._look(one).kind is Kind.WAITING:
                    self._todo.append(one)
            if not self._at_work and not self._todo:
                time.sleep(POLL_SECONDS)
            self.progress.at(pool.steps_done())
            self._refresh_studies_when_due()

    def _start(self, one: Planned, pool: Pool) -> None:
        if self._look(one).kind is Kind.WAITING:
            self._at_work[one.point.id] = one
            pool.start(one.point, one.config.processes)

    def _look(self, one: Planned) -> RunState:
        """The state of a point. One that has ended is settled; one at work elsewhere is remembered."""
        point = plans.filled(self.store.root, one.point)
        now = state(self.store, point)
        self._elsewhere.pop(point.id, None)
        if now.kind is Kind.LIVE:
            self._elsewhere[point.id] = one
        elif now.kind is not Kind.WAITING:
            self.progress.ended(point, now, one.config.steps or 0)
            self._settle(one, now.record, f"failed ({now.reason}): {now.message}" if now.reason else "")
        return now

    def _ended(self, one: Planned, status: int) -> None:
        """Handle the end of a worker: settle its point, or queue it again if the worker was killed."""
        now = self._look(one)
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
        """SIGINT and SIGTERM only set a flag: the workers save, then the loop ends."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.interrupted = True

        previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
