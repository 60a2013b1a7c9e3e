"""What a job of an array does, in each process of its run."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from submitit.helpers import TorchDistributedEnvironment

from harness.config import parts
from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.store.owner import STALE_SECONDS
from harness.store.points import Point
from harness.system import slurm, streams
from harness.system.environment import HOME
from harness.train.monitor import Monitor
from sweeps.cluster import job_name
from sweeps.cluster.job_lines import EXIT_AGAIN, SCRIPT_REQUEUES
from sweeps.run.execute import EXIT_ENDED, EXIT_STOPPED, execute

# Seconds that a job waits for the one before it, which was cancelled and saves: SLURM's KillWait is 30 by
# default, and a process that was killed while it saved counts as alive for STALE_SECONDS more.
PATIENCE = STALE_SECONDS + 180.0


def work(root: str, code: str, point: Mapping[str, Any]) -> None:
    """Train a point's run, or as much of it as signals allow; the exit status is that of `execute`.

    Args:
        root: the store.
        code: the snapshot to run from.
        point: the fields of a `Point`, with settings or a slot of a search.

    Raises:
        SystemExit: always.
    """
    streams.settle()
    monitor = Monitor(patience=PATIENCE)
    monitor.stop_on_signals()
    one = Point(**point)
    # A signal that came this early leaves perhaps too little time to load and save; the processes of a run
    # stop together, so there it is left to them.
    warned = monitor.stop_requested and one.processes == 1
    status = EXIT_STOPPED if warned else _execute(Path(root), code, one, monitor)
    if status == EXIT_STOPPED and comes_back(monitor):
        come_back()
    sys.exit(status)


def _execute(root: Path, code: str, point: Point, monitor: Monitor) -> int:
    check_code(code)
    parts.allow(parts.named(point.overrides))
    if not point.slot and run_key(resolve_config(point.overrides)) != point.key:
        sys.exit(f"htbench: run {point.key} was planned with other data or defaults than this node has.")
    job_name.tell_point(point)
    if point.processes > 1:
        TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    return execute(root, point, monitor, _say)


def check_code(code: str) -> None:
    """End the job if it imports other code than it was submitted with."""
    if Path(code).resolve() != HOME:
        sys.exit(f"htbench: this job imports from {HOME} instead of its snapshot {code}.")


def _say(what: object) -> None:
    print(f"htbench: {what}", file=sys.stderr, flush=True)


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
        _say(f"job {job} could not be queued again, the next `sweep submit` does it: {error}")
        sys.exit(EXIT_ENDED)
