"""What a job has in common with a job of several runs: the code it may run, and whether it starts again."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from harness.store.owner import STALE_SECONDS
from harness.system import slurm
from harness.system.environment import HOME
from harness.train.monitor import Monitor
from sweeps.cluster.job_log import EXIT_AGAIN, SCRIPT_REQUEUES
from sweeps.run.execute import EXIT_ENDED

# Seconds that a job waits for the one before it, which was cancelled and saves: SLURM's KillWait is 30 by
# default, and a process that was killed while it saved counts as alive for STALE_SECONDS more.
PATIENCE = STALE_SECONDS + 180.0


def check_code(code: str) -> None:
    """End the job if it imports other code than it was submitted with."""
    if Path(code).resolve() != HOME:
        sys.exit(f"htbench: this job imports from {HOME} instead of its snapshot {code}.")


def say(what: object) -> None:
    """A line of the job's log."""
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
        say(f"job {job} could not be queued again, the next `sweep submit` does it: {error}")
        sys.exit(EXIT_ENDED)
