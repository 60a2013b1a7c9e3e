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
_FOR_THE_CONTROLLER = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
_OF_A_JOB = ("SLURM_", "SLURMD_", "SRUN_", "SUBMITIT_")
_OF_A_RANK = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

# Errors of a client that has no answer. Every other error of `sbatch` is the controller's answer.
_SILENCE = re.compile(
    "no answer within|Unable to contact|Connection refused|Zero Bytes|timed out|munge|"
    "configuration (file|source)",
    re.IGNORECASE,
)
# Of these, after which the job may be in the queue all the same. "exit status" stands for no word at all.
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
    worked, text = _sbatch(script)
    # A site's own `sbatch` may tell the number only, as --parsable does. It may fail after that, or be too
    # slow: the number counts.
    found = re.search(r"(?:^|Submitted batch job )(\d+)(?:$|;| on cluster)", text, re.MULTILINE)
    if found is not None:
        return found[1]
    said = _sentence(text)
    if worked:
        raise UnsureError(f"sbatch says '{said}', which is no job's number")
    raise UnsureError(f"sbatch: {said}") if _UNSURE.search(said) else RefusedError(said)


def test_only(script: str) -> str:
    """The partition in which SLURM would take a job that is not submitted; empty if it does not say.

    When the job would start, which SLURM tells, too, means nothing: one job that waits moves it by centuries.

    Args:
        script: what `sbatch` would read.

    Raises:
        SlurmError: it does not answer.
        RefusedError: it would refuse the job.
    """
    worked, text = _sbatch(script, "--test-only")
    said = _sentence(text)
    if worked:
        partition = re.search(r"\bin partition (\S+)", said)
        return partition[1] if partition else ""
    if _SILENCE.search(said):
        raise SlurmError(f"SLURM does not answer (sbatch: {said}); try again later.")
    raise RefusedError(said)


def _sbatch(script: str, *words: str) -> tuple[bool, str]:
    """Whether `sbatch` succeeds, and its output.

    The options in the script are put on the command line, too. Variables SBATCH_* of a user's shell override
    the script, but not the command line.
    """
    require("sbatch")
    head = itertools.takewhile(lambda line: not line or line.startswith("#"), script.splitlines())
    options = [line.removeprefix("#SBATCH") for line in head if line.startswith("#SBATCH ")]
    words = (*itertools.chain(*(shlex.split(line, comments=True) for line in options)), *words)
    environment = _as_on_a_login_node()
    return ask("sbatch", *words, patience=PATIENCE, input_text=script, environment=environment)


def _as_on_a_login_node() -> dict[str, str]:
    """The environment variables without those of the surrounding job, which a new job must not inherit."""
    if "SLURM_JOB_ID" not in os.environ:
        return dict(os.environ)
    return {
        name: value
        for name, value in os.environ.items()
        if name in _FOR_THE_CONTROLLER or not (name.startswith(_OF_A_JOB) or name in _OF_A_RANK)
    }


def _sentence(text: str) -> str:
    """The output of `sbatch` in one line, without its name."""
    lines = (line.strip() for line in re.sub("sbatch: (error: )?", "", text).splitlines())
    return "; ".join(line.rstrip(".") for line in lines if line)
