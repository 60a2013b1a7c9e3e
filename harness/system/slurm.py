"""SLURM's queue, asked with a time limit: no caller can block.

One `squeue` shows the jobs of all users. `sacct` is not needed: the store has the results of a job.
"""

from __future__ import annotations

import functools
import os
import shutil
import time
from dataclasses import dataclass

from harness.errors import UsageError
from harness.system.machine import ask

PATIENCE = 10.0  # seconds for one answer; a busy controller takes a few
FRESH = 30.0  # seconds for which an answer is used again: sites limit the number of requests

# Fixed widths, as no separator is safe; a job's name comes last.
_COLUMNS = (
    ("JobArrayID", 40),
    ("State", 20),
    ("RestartCnt", 12),
    ("UserName", 40),
    ("Reason", 60),
    ("Name", 300),  # longer than that of any sweep can be
)

# Requeued and then held until a person releases it. Such a job waits.
_HELD = ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")


class SlurmError(UsageError):
    """SLURM is missing or does not answer; the message is one sentence."""


@dataclass(frozen=True)
class Job:
    """A job in the queue, or one task of an array.

    Attributes:
        id: `12`, or `12_3` for a task of an array. The plain number of a task is ambiguous: the last task of
            an array to start has that of the whole array.
        state: PENDING, RUNNING, COMPLETING ...
        restarts: how often it was requeued.
        user: whose it is.
        reason: why it waits.
        name: as submitted.
    """

    id: str
    state: str
    restarts: int
    user: str
    reason: str
    name: str

    @property
    def array(self) -> str:
        """The number of the whole array."""
        return self.id.partition("_")[0]

    @property
    def pending(self) -> bool:
        """Whether it waits for its start; a requeued job waits again."""
        return self.state == "PENDING" or self.state in _HELD


def own_job() -> str:
    """The id of the job that this process is part of, as the queue shows it; empty outside of jobs."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def preempted() -> bool:
    """Whether SLURM preempts this process's job and its grace time runs: the only signal is SIGTERM.

    A job that ends within that time does not come back unless it requeues itself.
    """
    try:
        text = call("scontrol", "show", "job", "-o", own_job())
    except SlurmError:
        return False
    return "JobState=RUNNING" in text and "PreemptTime=None" not in text


def call(*command: str) -> str:
    """What a SLURM command prints.

    Raises:
        SlurmError: there is no such command, or it fails, or it takes longer than PATIENCE.
    """
    require(command[0])
    # SQUEUE_* are filters of the user. With them, jobs would be missing from the answer.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    worked, text = ask(*command, patience=PATIENCE, environment=environment)
    if not worked:
        said = " ".join(text.replace(f"{command[0]}: ", "").split())
        raise SlurmError(f"SLURM does not answer ({command[0]}: {said}); try again later.")
    return text


def require(command: str) -> None:
    """Raise SlurmError unless there is such a command."""
    if shutil.which(command) is None:
        raise SlurmError(
            f"There is no '{command}' on the PATH; load your site's SLURM module, or train on this machine "
            f"with `htbench sweep run`."
        )


def queue(age: float = 0.0) -> dict[str, Job]:
    """All jobs of all users that wait or run, by id.

    Args:
        age: an answer, or a failure to answer, is used again for so many seconds.

    Raises:
        SlurmError: there is no answer.
    """
    asked, answer = _remembered
    if answer is not None and time.monotonic() - asked < age:
        if isinstance(answer, SlurmError):
            raise answer
        return answer
    wanted = ",".join(f"{name}:{width}" for name, width in _COLUMNS)
    try:
        # Without --all, jobs in hidden partitions are left out, even those of this user.
        text = call("squeue", "--noheader", "--array", "--all", "--Format", wanted)
        rows = [_parse(line) for line in text.splitlines()]
    except SlurmError as error:
        _remember(error)
        raise
    jobs = {job.id: job for job in rows if job is not None}
    _remember(jobs)
    return jobs


def _parse(line: str) -> Job | None:
    words, start = [], 0
    for _, width in _COLUMNS:
        words.append(line[start : start + width].strip())
        start += width
    if not words[2].isdigit():  # "exit status 0" of an empty queue, a warning in between
        return None
    if words[1] == "REVOKED":  # in a federation: it runs on another cluster
        return None
    return Job(words[0], words[1], int(words[2]), *words[3:])


_remembered: tuple[float, dict[str, Job] | SlurmError | None] = (float("-inf"), None)


def _remember(answer: dict[str, Job] | SlurmError) -> None:
    global _remembered
    _remembered = (time.monotonic(), answer)


def recent_queue() -> dict[str, Job] | None:
    """The queue as of at most FRESH seconds ago; None if SLURM could not be asked."""
    try:
        return queue(FRESH)
    except SlurmError:
        return None


@functools.cache
def config() -> dict[str, str]:
    """The controller's settings. Raises SlurmError."""
    rows = (line.partition("=") for line in call("scontrol", "show", "config").splitlines())
    return {name.strip(): value.strip() for name, _, value in rows}


def cluster() -> str:
    """The cluster's name; empty if it is not known."""
    text = os.environ.get("SLURM_CLUSTER_NAME")
    if text is not None:
        return text
    try:
        return config().get("ClusterName", "")
    except SlurmError:
        return ""
