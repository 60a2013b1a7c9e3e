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
from collections.abc import Collection, Sequence
from pathlib import Path

from harness.show.emit import say
from harness.show.status import Status
from harness.store import RunState, Store
from harness.store.points import Point
from harness.system import slurm, streams
from harness.system.machine import visible_gpus
from harness.train.monitor import Monitor
from sweeps.cluster import job_log, requeue
from sweeps.cluster.following import following
from sweeps.cluster.job_log import AT_ONCE
from sweeps.cluster.queue import closed_path
from sweeps.run.execute import EXIT_DONE, EXIT_ENDED, EXIT_STOPPED
from sweeps.run.pool import Pool
from sweeps.run.schedule import Schedule

LOOK_SECONDS = 60.0  # between two looks for more work while there is room for it


def work(root: str, code: str, points: Sequence[Point], logs: str) -> None:
    """Train the runs of some points, or as much of them as signals allow.

    Args:
        root: the store.
        code: the snapshot to run from.
        points: with settings, or each a slot of a search.
        logs: the folder of the runs' logs.

    Raises:
        SystemExit: always. The status is 0 if every run has a result, 2 if the job was asked to stop before
            that, else 1.
    """
    streams.settle()
    monitor = Monitor()
    monitor.stop_on_signals()
    requeue.check_code(code)
    packed = PackedJob(Path(root), points, Path(logs), monitor)
    packed.run()
    comes_back = monitor.stop_requested and requeue.comes_back(monitor)
    packed.close()
    known = packed.states()
    if monitor.stop_requested and not all(one.status.is_settled for one in known):
        if comes_back:
            packed.open()
            requeue.come_back()
        sys.exit(EXIT_STOPPED)
    sys.exit(EXIT_DONE if all(one.status.has_ended for one in known) else EXIT_ENDED)


class PackedJob(Schedule):
    """The runs of one job.

    Args:
        root: the store.
        points: the job's; their runs have equally many processes.
        logs: the folder of the runs' logs.
        monitor: hears of signals.
    """

    def __init__(self, root: Path, points: Sequence[Point], logs: Path, monitor: Monitor) -> None:
        super().__init__(Store(root), monitor)
        self.logs, self.points = logs, {point.id: point for point in points}
        self.processes = points[0].processes
        self._look_due = 0.0
        self._given_up: dict[str, tuple[Status, int]] = {}  # the state and the attempts at that time

    def run(self) -> None:
        """Return, closed, when this job can do nothing more for its points, or when it was asked to stop."""
        if self.monitor.stop_requested:  # perhaps too little time is left to load and save
            return
        pool = None
        self.close()
        while todo := self._left() or self._follow():
            self.open()
            pool = pool or self._pool()
            self.todo.extend(todo)
            self._look_due = time.monotonic() + LOOK_SECONDS
            self.work(pool)
            if self.monitor.stop_requested:
                return
            self.close()

    def open(self) -> None:
        """Say that failed runs which are reset will be trained by this job."""
        closed_path(self.logs, slurm.own_job()).unlink(missing_ok=True)

    def close(self) -> None:
        """Say that they will not, unless the states which are read after this show them."""
        closed_path(self.logs, slurm.own_job()).touch()

    def states(self) -> list[RunState]:
        """The states of the points."""
        return [self.state(point) for point in self.points.values()]

    def _pool(self) -> Pool:
        """The pool. Exits if the node shows fewer GPUs than promised: runs would share what is there."""
        promised, visible = slurm.promised_gpus(), len(visible_gpus())
        if visible < promised and any(one.overrides.get("device") != "cpu" for one in self.points.values()):
            say(slurm.shortage({slurm.own_node(): (visible, promised)}, several=True))
            sys.exit(EXIT_ENDED)
        side_by_side = int(os.environ.get(AT_ONCE, "1"))
        searches = ["sweeps.studies.trial"] if any(one.slot for one in self.points.values()) else []
        return Pool(self.store.root, side_by_side * self.processes, searches, patience=requeue.PATIENCE)

    def tick(self, pool: Pool) -> None:
        """Now and then look for more work if there is room for it."""
        if not self.todo and time.monotonic() >= self._look_due and pool.has_room_for(self.processes):
            self.todo.extend(self._left(besides=pool.running))
            self._look_due = time.monotonic() + LOOK_SECONDS

    def ended(self, point: Point, status: int) -> None:
        """Decide as always, and look for more work soon."""
        super().ended(point, status)
        self._look_due = 0.0

    def _left(self, besides: Collection[str] = ()) -> list[Point]:
        """The points that need more work; not those that were given up and are as they were then."""
        states = {id: self.state(point) for id, point in self.points.items() if id not in besides}
        return [
            self.points[id]
            for id, now in states.items()
            if not now.status.is_settled and self._given_up.get(id) != (now.status, now.attempts)
        ]

    def _follow(self) -> list[Point]:
        """The rounds that follow on its points, from now on points of this job."""
        points = following(self.store.root, [*self.points.values()])
        new = [point for point in points if point.id not in self.points]
        self.points |= {point.id: point for point in new}
        return new

    def begins_again(self, point: Point, signal: int) -> None:
        """Tell it in the job's log."""
        print(f"htbench: {point.id} was killed by signal {signal}; it begins again", flush=True)

    def left(self, point: Point, now: RunState, status: int) -> None:
        """Give a point up until its state changes."""
        self._given_up[point.id] = (now.status, now.attempts)
        print(f"htbench: {point.id} has ended with status {status}; this job leaves it", flush=True)

    def log(self, point: Point) -> Path:
        """The log of a run, with a line that tells where and when it starts."""
        path = job_log.of_run(self.logs, slurm.own_job(), point.id)
        with path.open("a", encoding="utf-8") as file:
            print(job_log.start(slurm.own_job(), slurm.own_node(), time.time()), file=file)
        return path
