"""Call `sbatch` with a timeout and read its answer, from any shell and from within a job."""

import itertools
import os
import re
import shlex

from htbench.harness.errors import UsageError
from htbench.harness.system.machine import ask
from htbench.harness.system.slurm import SlurmError, require

PATIENCE = 20.0  # seconds; `sbatch` alone tries for minutes to reach a dead controller

# Variables of a job by which `sbatch` finds the controller and authenticates itself.
_CONTROLLER_VARIABLES = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
_JOB_PREFIXES = ("SLURM_", "SLURMD_", "SRUN_", "SUBMITIT_")
_RANK_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

# Errors of a client without an answer. Every other error of `sbatch` is the controller's answer.
_NO_ANSWER = re.compile(
    "no answer within|Unable to contact|Connection refused|Zero Bytes|timed out|munge|"
    "configuration (file|source)",
    re.IGNORECASE,
)
# Errors after which the job may be in the queue all the same. "exit status" stands for an empty output.
_UNSURE = re.compile(
    "no answer within|exit status|Zero Bytes|timed out|Transport endpoint|reset by peer|Unexpected message",
    re.IGNORECASE,
)


class UnsureError(UsageError):
    """SLURM may have taken a job, or not; the message is that of `sbatch`."""


class RefusedError(UsageError):
    """SLURM refuses a job; the message is that of `sbatch`."""


def submit(script: str) -> str:
    """Hand a script to `sbatch`.

    Args:
        script: what it gets to read. A file in the store could be another one by then.

    Returns:
        the number of its job.

    Raises:
        RefusedError: SLURM refuses the job.
        UnsureError: there is no answer, or one without a number; the job may be in the queue.
    """
    succeeded, text = _call_sbatch(script)
    # A site's own `sbatch` may print the number only, as --parsable does. It may fail after that, or be too
    # slow: the number counts.
    number = re.search(r"(?:^|Submitted batch job )(\d+)(?:$|;| on cluster)", text, re.MULTILINE)
    if number is not None:
        return number[1]
    answer = _join_lines(text)
    if succeeded:
        raise UnsureError(f"sbatch says '{answer}', which is no job's number")
    raise UnsureError(f"sbatch: {answer}") if _UNSURE.search(answer) else RefusedError(answer)


def test_only(script: str) -> str:
    """The partition in which SLURM would take a job that is not submitted; empty if it does not say.

    When the job would start, which SLURM tells, too, means nothing: one job that waits moves it by centuries.

    Args:
        script: what `sbatch` would read.

    Raises:
        SlurmError: it does not answer.
        RefusedError: it would refuse the job.
    """
    succeeded, text = _call_sbatch(script, "--test-only")
    answer = _join_lines(text)
    if succeeded:
        partition = re.search(r"\bin partition (\S+)", answer)
        return partition[1] if partition else ""
    if _NO_ANSWER.search(answer):
        raise SlurmError(f"SLURM does not answer (sbatch: {answer}); try again later.")
    raise RefusedError(answer)


def _call_sbatch(script: str, *words: str) -> tuple[bool, str]:
    """Whether `sbatch` succeeds, and its output.

    The options in the script are put on the command line, too. Variables SBATCH_* of a user's shell override
    the script, but not the command line. A new job must not inherit the variables of a job around it.
    """
    require("sbatch")
    head = itertools.takewhile(lambda line: not line or line.startswith("#"), script.splitlines())
    options = [line.removeprefix("#SBATCH") for line in head if line.startswith("#SBATCH ")]
    words = (*itertools.chain(*(shlex.split(line, comments=True) for line in options)), *words)
    in_job = "SLURM_JOB_ID" in os.environ
    environment = {
        name: value
        for name, value in os.environ.items()
        if not in_job
        or name in _CONTROLLER_VARIABLES
        or not (name.startswith(_JOB_PREFIXES) or name in _RANK_VARIABLES)
    }
    return ask("sbatch", *words, patience=PATIENCE, input_text=script, environment=environment)


def _join_lines(text: str) -> str:
    """The output of `sbatch` in one line, without its name."""
    lines = (line.strip() for line in re.sub("sbatch: (error: )?", "", text).splitlines())
    return "; ".join(line.rstrip(".") for line in lines if line)
