"""What a job with several runs does: it deals its GPUs out to them and starts each in processes of its own.

A run in it is a run like any other: it has an owner, a log, checkpoints, and its result is stored once. The
job ends when it can do nothing more for its points, or when it is told to; then it comes back for the rest.

A failed run that `submit --retry` resets is trained again by its job, if that goes on. No run gets lost
between the two: the job closes, a file, before it looks at its points for the last time, and `submit` resets
the run before it asks whether the job has closed.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.show.status import Status
from harness.store import Kind, RunState, Store
from harness.store.points import Point, filled
from harness.system import atomic, slurm, streams
from harness.system.machine import visible_gpus
from harness.train.monitor import Monitor
from sweeps.cluster import job, job_lines, job_log
from sweeps.plan.states import settled, state
from sweeps.run.execute import EXIT_DONE, EXIT_ENDED, EXIT_STOPPED
from sweeps.run.pool import Pool

AT_ONCE = "HTBENCH_RUNS_AT_ONCE"  # set by the script of the job
POLL_SECONDS = 1.0
LOOK_SECONDS = 60.0  # between two looks for more work while there is room for it
MOST_DEATHS = 3  # a run is started again at most so often after a signal killed it


def work(root: str, code: str, points: Sequence[Mapping[str, Any]], logs: str) -> None:
    """Train the runs of some points, or as much of them as signals allow.

    Args:
        root: the store.
        code: the snapshot to run from.
        points: each the fields of a `Point`, with settings or a slot of a search.
        logs: the folder of the runs' logs.

    Raises:
        SystemExit: always. The status is 0 if every run has a result, 2 if the job was asked to stop before
            that, else 1.
    """
    streams.settle()
    monitor = Monitor()
    monitor.stop_on_signals()
    job.check_code(code)
    own = PackedJob(Path(root), [Point(**point) for point in points], Path(logs), monitor)
    own.run()
    comes_back = monitor.stop_requested and job.comes_back(monitor)
    own.close()
    known = own.states()
    if monitor.stop_requested and not all(map(settled, known)):
        if comes_back:
            own.open()
            job.come_back()
        sys.exit(EXIT_STOPPED)
    sys.exit(EXIT_DONE if all(one.kind is Kind.FINISHED for one in known) else EXIT_ENDED)


class PackedJob:
    """The runs of one job.

    Args:
        root: the store.
        points: the job's; their runs have equally many processes.
        logs: the folder of the runs' logs.
        monitor: hears of signals.
    """

    def __init__(self, root: Path, points: Sequence[Point], logs: Path, monitor: Monitor) -> None:
        self.store, self.logs, self.monitor = Store(root), logs, monitor
        self.points = {point.id: point for point in points}
        self.processes = points[0].processes
        self._before: dict[str, int] = {}  # the attempts at a run when this job last started it
        self._deaths: Counter[str] = Counter()
        self._given_up: dict[str, tuple[Status, int]] = {}  # the state and the attempts at that time

    def run(self) -> None:
        """Return, closed, when this job can do nothing more for its points, or when it was asked to stop."""
        if self.monitor.stop_requested:  # perhaps too little time is left to load and save
            return
        pool = None
        self.close()
        while todo := self._left():
            self.open()
            pool = pool or self._pool()
            self._train(pool, deque(todo))
            if self.monitor.stop_requested:
                return pool.stop()
            self.close()

    def open(self) -> None:
        """Say that failed runs which are reset will be trained by this job."""
        closed_path(self.logs, slurm.own_job()).unlink(missing_ok=True)

    def close(self) -> None:
        """Say that they will not, unless the states which are read after this show them."""
        closed_path(self.logs, slurm.own_job()).touch()

    def states(self) -> list[RunState]:
        """The states of the points; each is read from its folder, as the index may be long."""
        return [self._state(point) for point in self.points.values()]

    def _check_gpus(self) -> None:
        """End the job if its node shows fewer GPUs than promised: runs would share what is there."""
        promised, found = slurm.promised_gpus(), len(visible_gpus())
        if found < promised and any(one.overrides.get("device") != "cpu" for one in self.points.values()):
            said = slurm.shortage({slurm.own_node(): (found, promised)}, "its runs wait")
            print(f"htbench: {said}", file=sys.stderr, flush=True)
            sys.exit(EXIT_ENDED)

    def _pool(self) -> Pool:
        self._check_gpus()
        side_by_side = int(os.environ.get(AT_ONCE, "1"))
        searches = ["sweeps.studies.trial"] if any(one.slot for one in self.points.values()) else []
        return Pool(self.store.root, side_by_side * self.processes, searches, patience=job.PATIENCE)

    def _train(self, pool: Pool, todo: deque[Point]) -> None:
        """Train points until none is left, or until the job was asked to stop."""
        due = time.monotonic() + LOOK_SECONDS
        while (todo or pool.running) and not self.monitor.stop_requested:
            while todo and pool.has_room_for(self.processes):
                point = todo.popleft()
                self._before[point.id] = self._state(point).attempts
                pool.start(point, self.processes, self._log(point))
            for id, status in pool.finished(timeout=POLL_SECONDS):
                self._ended(self.points[id], status)
                due = 0.0
            if not todo and time.monotonic() >= due and pool.has_room_for(self.processes):
                todo.extend(self._left(besides=pool.running))
                due = time.monotonic() + LOOK_SECONDS

    def _left(self, besides: Collection[str] = ()) -> list[Point]:
        """The points that need more work; not those that were given up and are as they were then."""
        states = {id: self._state(point) for id, point in self.points.items() if id not in besides}
        return [
            self.points[id]
            for id, now in states.items()
            if not settled(now) and self._given_up.get(id) != (now.kind, now.attempts)
        ]

    def _state(self, point: Point) -> RunState:
        one = filled(self.store.root, point)
        if one.key:  # `submit` on another machine may have reset a failure
            atomic.refresh_file_cache(self.store.files(one.key).attempts)
        return state(self.store, one)

    def _ended(self, point: Point, status: int) -> None:
        """Note the end of a run's processes: only one that a signal killed begins again in this job."""
        now = self._state(point)
        if settled(now):
            del self._deaths[point.id]
            return
        begun = now.attempts > self._before[point.id]
        if status == EXIT_ENDED and begun and now.kind is Kind.WAITING and not now.message:
            return  # a failure that a person has reset by now; other attempts that end leave a message
        self._deaths[point.id] += status < 0
        if status >= 0 or self._deaths[point.id] > MOST_DEATHS:
            self._given_up[point.id] = (now.kind, now.attempts)
            print(f"htbench: {point.id} has ended with status {status}; this job leaves it", flush=True)
        else:
            print(f"htbench: {point.id} was killed by signal {-status}; it begins again", flush=True)

    def _log(self, point: Point) -> Path:
        """The log of a run, with a line that tells where and when it starts."""
        path = job_log.of_run(self.logs, slurm.own_job(), point.id)
        with path.open("a", encoding="utf-8") as file:
            print(job_lines.start(slurm.own_job(), slurm.own_node(), time.time()), file=file)
        return path


def closed_path(folder: Path, job: str) -> Path:
    """The file that is there once a job trains no more runs that are reset."""
    return folder / f"{job}_closed"
