"""What a job of an array does, in each process of its run.

    python -m htbench.sweeps.cluster.job FOLDER DIGEST ROOT CODE

What the jobs of an array are to do is in one file of FOLDER (`job_array.order`). Its digest is on the command
line, which SLURM keeps: a job does what was submitted, or nothing. The file is plain JSON, as loading a
pickle executes what somebody may have put in its place.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from htbench.harness.show.emit import say
from htbench.harness.store.owner import STALE_SECONDS
from htbench.harness.store.points import Point
from htbench.harness.system import slurm, streams
from htbench.harness.system.environment import CODE
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.cluster.job_log import EXIT_AGAIN, NO_TASK, SCRIPT_REQUEUES
from htbench.sweeps.cluster.next_round import plan_next_round
from htbench.sweeps.cluster.queue import ORDER
from htbench.sweeps.run.execute import EXIT_DONE, EXIT_ENDED, EXIT_STOPPED, execute

# Seconds that a job waits for the one before it, which was cancelled and saves: SLURM's KillWait is 30 by
# default, and a process that was killed while it saved counts as alive for STALE_SECONDS more.
PATIENCE = STALE_SECONDS + 180.0


def main(folder: str, digest: str, root: str, code: str) -> None:
    """Train the run of this job as far as signals allow; the exit status is that of `execute`.

    Args:
        folder: of the array's order and logs.
        digest: of the order.
        root: the store.
        code: the snapshot to run from.

    Raises:
        SystemExit: always; without training if the order is gone, or is not what was submitted.
    """
    path = Path(folder, ORDER)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        sys.exit(f"htbench: {NO_TASK}")
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit(f"htbench: '{path}' is not what was submitted; this job ends")
    train_point(root, code, Point(**json.loads(data)[int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))]))


def train_point(root: str, code: str, point: Point) -> None:
    """Train a point's run and the rounds that follow, as far as signals allow. Raises SystemExit always."""
    streams.settle()
    monitor = Monitor(patience=PATIENCE)
    monitor.stop_on_signals()
    # A signal that came this early leaves perhaps too little time to load and save; the processes of a run
    # stop together, so there it is left to them.
    warned = monitor.stop_requested and point.processes == 1
    status = EXIT_STOPPED if warned else _execute(Path(root), code, point, monitor)
    last = status
    while last == EXIT_DONE and point.processes == 1 and (new := plan_next_round(Path(root), point)):
        last = EXIT_STOPPED if monitor.stop_requested else _execute(Path(root), code, new[0], monitor)
        status = EXIT_STOPPED if last == EXIT_STOPPED else status
    if status == EXIT_STOPPED and must_restart(monitor):
        restart()
    sys.exit(status)


def _execute(root: Path, code: str, point: Point, monitor: Monitor) -> int:
    if Path(code).resolve() != CODE:
        sys.exit(f"htbench: this job imports from {CODE} instead of its snapshot {code}.")
    if point.processes > 1:
        from submitit.helpers import TorchDistributedEnvironment

        TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    return execute(root, point, monitor, say)


# --- whether the job starts again ---


def must_restart(monitor: Monitor) -> bool:
    """Whether this job must start again: SLURM's warning came before its time limit, or it is preempted.

    A job that was cancelled after the warning must not. In a container without `scontrol` the script of the
    job finds out which of the two it is.
    """
    if _script_requeues():
        return True
    return not slurm.cancelled() if signal.SIGUSR2 in monitor.signals else slurm.preempted()


def _script_requeues() -> bool:
    return bool(os.environ.get(SCRIPT_REQUEUES)) and shutil.which("scontrol") is None


def restart() -> None:
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
