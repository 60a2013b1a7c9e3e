"""What a job of an array does, in each process of its run.

    python -m htbench.sweeps.cluster.job FOLDER DIGEST ROOT CODE

What the jobs of an array are to do is in one file of FOLDER (`job_array.order`). Its digest is on the command
line, which SLURM keeps: a job does what was submitted, or nothing. The file is plain JSON, as loading a
pickle executes what somebody may have put in its place.

A job with several runs deals its GPUs out to them and starts each in processes of its own. A run in it is a
run like any other: it has an owner, a log, checkpoints, and its result is stored once. The job ends when it
can do nothing more for its points, or when it is told to; then it comes back for the rest.

A failed run that `submit --retry` resets is trained again by its job, if that goes on. No run gets lost
between the two: the job closes, a file, before it looks at its points for the last time, and `submit` resets
the run before it asks whether the job has closed.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.config import parts
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import refused
from htbench.harness.show.emit import say
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.store.owner import STALE_SECONDS
from htbench.harness.store.points import Point
from htbench.harness.system import slurm, streams
from htbench.harness.system.environment import HOME
from htbench.harness.system.machine import visible_gpus
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.cluster import job_log
from htbench.sweeps.cluster.following import following
from htbench.sweeps.cluster.job_log import AT_ONCE, EXIT_AGAIN, NO_TASK, SCRIPT_REQUEUES
from htbench.sweeps.cluster.queue import ORDER, closed_path, tell_point
from htbench.sweeps.run.execute import EXIT_DONE, EXIT_ENDED, EXIT_STOPPED, execute
from htbench.sweeps.run.pool import Pool
from htbench.sweeps.run.schedule import Schedule

# Seconds that a job waits for the one before it, which was cancelled and saves: SLURM's KillWait is 30 by
# default, and a process that was killed while it saved counts as alive for STALE_SECONDS more.
PATIENCE = STALE_SECONDS + 180.0
LOOK_SECONDS = 60.0  # between two looks for more work while there is room for it


def main(folder: str, digest: str, root: str, code: str) -> None:
    """Train the run of this job, or its runs, as far as signals allow; the exit status is that of `execute`.

    Args:
        folder: of the array's order and logs.
        digest: of the order.
        root: the store.
        code: the snapshot to run from.

    Raises:
        SystemExit: always.
    """
    order = read_order(Path(folder), digest)
    points = [Point(**fields) for fields in order["jobs"][int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))]]
    if order["together"]:
        work_together(root, code, points, folder)
    work(root, code, points[0])


def read_order(folder: Path, digest: str) -> Any:
    """What the jobs of an array are to do.

    Raises:
        SystemExit: the file is gone, or is not what was submitted.
    """
    try:
        data = (folder / ORDER).read_bytes()
    except FileNotFoundError:
        sys.exit(f"htbench: {NO_TASK}")
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit(f"htbench: '{folder / ORDER}' is not what was submitted; this job ends")
    return json.loads(data)


def work(root: str, code: str, point: Point) -> None:
    """Train a point's run and the rounds that follow, as far as signals allow. Raises SystemExit always."""
    streams.settle()
    monitor = Monitor(patience=PATIENCE)
    monitor.stop_on_signals()
    # A signal that came this early leaves perhaps too little time to load and save; the processes of a run
    # stop together, so there it is left to them.
    warned = monitor.stop_requested and point.processes == 1
    status = EXIT_STOPPED if warned else _execute(Path(root), code, point, monitor)
    last = status
    while last == EXIT_DONE and point.processes == 1 and (new := following(Path(root), [point])):
        last = EXIT_STOPPED if monitor.stop_requested else _execute(Path(root), code, new[0], monitor)
        status = EXIT_STOPPED if last == EXIT_STOPPED else status
    if status == EXIT_STOPPED and comes_back(monitor):
        come_back()
    sys.exit(status)


def _execute(root: Path, code: str, point: Point, monitor: Monitor) -> int:
    check_code(code)
    parts.allow(parts.named(point.overrides))
    if not point.slot and run_key(resolve_config(point.overrides)) != point.key:
        sys.exit(f"htbench: run {point.key} was planned with other data or defaults than this node has.")
    tell_point(point)
    if point.processes > 1:
        from submitit.helpers import TorchDistributedEnvironment

        TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    return execute(root, point, monitor, say)


# --- a job with several runs ---


def work_together(root: str, code: str, points: Sequence[Point], logs: str) -> None:
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
    check_code(code)
    packed = PackedJob(Path(root), points, Path(logs), monitor)
    try:
        packed.run()
    except OSError as error:
        sys.exit(f"htbench: {refused(error)}")
    again = monitor.stop_requested and comes_back(monitor)
    packed.close()
    known = packed.states()
    if monitor.stop_requested and not all(one.status.is_settled for one in known):
        if again:
            packed.open()
            come_back()
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
        searches = ["htbench.sweeps.studies.trial"] if any(one.slot for one in self.points.values()) else []
        return Pool(self.store.root, side_by_side * self.processes, searches, patience=PATIENCE)

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


# --- its code, and whether it starts again ---


def check_code(code: str) -> None:
    """End the job if it imports other code than it was submitted with."""
    if Path(code).resolve() != HOME.parent:
        sys.exit(f"htbench: this job imports from {HOME.parent} instead of its snapshot {code}.")


def comes_back(monitor: Monitor) -> bool:
    """Whether this job must start again: SLURM's warning came before its time limit, or it is preempted.

    One that was cancelled after the warning must not. In a container without `scontrol` its script finds that
    out.
    """
    if _script_requeues():
        return True
    return not slurm.cancelled() if signal.SIGUSR2 in monitor.signals else slurm.preempted()


def _script_requeues() -> bool:
    return bool(os.environ.get(SCRIPT_REQUEUES)) and shutil.which("scontrol") is None


def come_back() -> None:
    """Let this job start again.

    Raises:
        SystemExit: it can't be queued again from here.
    """
    if _script_requeues():
        sys.exit(EXIT_AGAIN)
    job = slurm.own_job()
    try:
        slurm.call("scontrol", "requeue", job)
    except slurm.SlurmError as error:
        say(f"job {job} could not be queued again, the next `sweep submit` does it: {error}")
        sys.exit(EXIT_ENDED)


if __name__ == "__main__":
    main(*sys.argv[1:])
