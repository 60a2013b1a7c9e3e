"""What a job with several runs does: it deals its GPUs out to them and starts each in processes of its own.

A run in it is a run like any other: it has an owner, a log, checkpoints, and its result is stored once. The
job ends when none of its points needs more work, or when it is told to; then it comes back for the rest.

It is called with plain values from a pickle that may be older or newer than this file (`job_array.START`):
rename neither `work` nor its arguments.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.store import Kind, RunState, Store
from harness.store.points import Point, filled
from harness.system import slurm
from harness.train.monitor import Monitor
from sweeps.cluster import job, job_log
from sweeps.execute import EXIT_DONE, EXIT_ENDED, EXIT_STOPPED
from sweeps.local.pool import Pool
from sweeps.plan.states import settled, state

AT_ONCE = "HTBENCH_RUNS_AT_ONCE"  # set by the script of the job
POLL_SECONDS = 1.0
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
    monitor = Monitor()
    monitor.stop_on_signals()  # submitit has put handlers that raise in the middle of whatever is done
    job.check_code(code)
    own = PackedJob(Path(root), [Point(**point) for point in points], Path(logs), monitor)
    own.run()
    known = own.states()
    if monitor.stop_requested and not all(map(settled, known)):
        job.come_back(monitor)
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
        self.points = list(points)
        self._deaths: Counter[str] = Counter()
        self._given_up: set[str] = set()

    def run(self) -> None:
        """Return when no point is left that this job can do something for, or when it was asked to stop."""
        processes = self.points[0].processes
        side_by_side = int(os.environ.get(AT_ONCE, "1"))
        searches = ["sweeps.studies.trial"] if any(point.slot for point in self.points) else []
        todo = deque(self._left())
        if not todo or self.monitor.stop_requested:
            return
        pool = Pool(self.store.root, side_by_side * processes, searches, patience=job.PATIENCE)
        while (todo or pool.running) and not self.monitor.stop_requested:
            while todo and pool.has_room_for(processes):
                pool.start(point := todo.popleft(), processes, self._log(point))
            ended = pool.finished(timeout=POLL_SECONDS)
            for id, status in ended:
                self._ended(id, status)
            if ended and not todo:  # those that were killed, and failures that a person has reset meanwhile
                todo = deque(point for point in self._left() if point.id not in pool.running)
        pool.stop()

    def states(self) -> list[RunState]:
        """The states of the points; each is read from its folder, as the index may be long."""
        return [state(self.store, filled(self.store.root, point)) for point in self.points]

    def _left(self) -> list[Point]:
        """The points that need more work, without those that this job has given up."""
        known = zip(self.points, self.states(), strict=True)
        return [point for point, now in known if not settled(now) and point.id not in self._given_up]

    def _ended(self, id: str, status: int) -> None:
        """Note the end of a run's processes: one that a signal killed begins again in this job."""
        self._deaths[id] += status < 0
        point = next(point for point in self.points if point.id == id)
        now = state(self.store, filled(self.store.root, point))
        # A failure that a person has reset by now has no message; a node without its GPUs has one.
        reset = status == EXIT_ENDED and now.kind is Kind.WAITING and not now.message
        if not settled(now) and not reset and (status >= 0 or self._deaths[id] > MOST_DEATHS):
            self._given_up.add(id)

    def _log(self, point: Point) -> Path:
        """The log of a run, with a line that tells where and when it starts."""
        path = job_log.of_run(self.logs, slurm.own_job(), point.id)
        with path.open("a", encoding="utf-8") as file:
            print(
                f"htbench: job {slurm.own_job()} on node {slurm.own_node()} starts at {time.time():.0f}",
                file=file,
            )
        return path
