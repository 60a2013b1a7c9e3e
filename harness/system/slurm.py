"""SLURM's queue, asked with a time limit: no caller can block.

One `squeue` shows the jobs of all users. `sacct` is not needed: the store has the results of a job.
"""

import functools
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Mapping

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.system import squeue
from htbench.harness.system.machine import ask
from htbench.harness.system.squeue import Job

PATIENCE = 10.0  # seconds for one answer; a busy controller takes a few
FRESH = 30.0  # seconds for which an answer is used again: sites limit the number of requests

# How a command ends that was hit by the signal to all processes of our job; it can be asked again.
_TERMINATED = f"exit status {-signal.SIGTERM}"

# A command says so, with more, where it knows of no cluster: no file, no DNS record, no variable names one.
_NO_CLUSTER = "DNS SRV lookup failed"

# Set by the script of a job of ours (`sweeps/cluster/job_array.py`).
GPUS_VARIABLE = "HTBENCH_GPUS_PER_NODE"


class SlurmError(UsageError):
    """SLURM is missing or does not answer; the message is one sentence."""


def own_job() -> str:
    """The id of the job that this process is part of, as the queue shows it; empty outside of jobs."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def own_node() -> str:
    """The name of this machine, as `sbatch --exclude` takes it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def promised_gpus() -> int:
    """How many GPUs of this node the job asked for that this process is part of; 0 outside of our jobs."""
    number = os.environ.get(GPUS_VARIABLE, "")
    return int(number) if number.isdigit() else 0


def shortage(short: Mapping[str, tuple[int, int]]) -> Note:
    """Nodes that show fewer GPUs than the job was promised.

    Args:
        short: node -> how many GPUs it shows, and how many it should.
    """
    nodes = [Note("node_shows", node=node, have=have, need=need) for node, (have, need) in short.items()]
    return Note("gpus_short", nodes=nodes, first=next(iter(short)))


def preempted() -> bool:
    """Whether SLURM preempts this process's job and its grace time runs: the only signal is SIGTERM.

    A job that ends within that time does not come back unless it requeues itself.
    """
    row = _own_row()
    return row.get("JobState") == "RUNNING" and row.get("PreemptTime", "None") != "None"


def cancelled() -> bool:
    """Whether this process's job was cancelled; its processes have KillWait seconds to save.

    A job at its time limit and one that is preempted are over, too, and while a process is left SLURM shows
    all three as COMPLETING. But of the limit it tells the reason, of a preemption the time.
    """
    row = _own_row()
    over = row.get("JobState") in ("COMPLETING", "CANCELLED")
    return over and row.get("Reason") != "TimeLimit" and row.get("PreemptTime", "None") == "None"


def _own_row() -> dict[str, str]:
    """What SLURM tells of this process's job by the names of its fields; nothing without an answer."""
    try:
        return fields(call("scontrol", "show", "job", "-o", own_job()))
    except SlurmError:
        return {}


def fields(line: str) -> dict[str, str]:
    """The values in a line of `scontrol show -o` by the names of its fields, as far as the first blank."""
    return dict(re.findall(r"(\w+)=(\S+)", line))


def call(*command: str) -> str:
    """What a SLURM command prints.

    Raises:
        SlurmError: there is no such command, or it fails, or it takes longer than PATIENCE.
    """
    require(command[0])
    # SQUEUE_* are filters of the user. With them, jobs would be missing from the answer.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    # What goes to the standard error of a command that succeeds are warnings of the site or of the shell.
    for _ in range(2):
        worked, text = ask(*command, patience=PATIENCE, environment=environment, remarks=False)
        if text != _TERMINATED:
            break
    if not worked:
        if _NO_CLUSTER in text:
            raise SlurmError(str(Note("no_slurm_cluster", command=command[0])))
        message = " ".join(text.replace(f"{command[0]}: ", "").split())
        raise SlurmError(f"SLURM does not answer ({command[0]}: {message}); try again later.")
    return text


def require(command: str) -> None:
    """Raise SlurmError unless there is such a command."""
    if shutil.which(command) is None:
        raise SlurmError(str(Note("no_slurm_command", command=command)))


def queue(age: float = 0.0) -> dict[str, Job]:
    """All jobs of all users that wait, run or come back after a requeue, by id.

    Args:
        age: an answer, or a failure to answer, is used again for so many seconds.

    Raises:
        SlurmError: there is no answer, or one that is none of `squeue`.
    """
    return {id: job for id, job in _list_jobs("", age).items() if not job.over}


def ending(age: float = 0.0) -> dict[str, Job]:
    """The jobs that have ended and still hold their nodes, by id. For `age` and errors see `queue`."""
    return {id: job for id, job in _list_jobs("", age).items() if job.over}


def recent_queue() -> dict[str, Job] | None:
    """The queue as of at most FRESH seconds ago; None if SLURM could not be asked."""
    try:
        return queue(FRESH)
    except SlurmError:
        return None


def recently_ended() -> dict[str, Job]:
    """The jobs that ended within the last minutes and hold nothing any more, by id; none without an answer.

    The controller forgets a job MinJobAge seconds after its end, by default 300.
    """
    try:
        jobs = _list_jobs("all", FRESH)
    except SlurmError:
        return {}
    return {id: job for id, job in jobs.items() if job.over and job.state != "COMPLETING"}


_remembered: dict[str, tuple[float, dict[str, Job] | SlurmError]] = {}


def _list_jobs(states: str, age: float) -> dict[str, Job]:
    """The jobs in some states; empty: those that `squeue` shows by itself."""
    asked_at, answer = _remembered.get(states, (float("-inf"), {}))
    if time.monotonic() - asked_at >= age:
        # Without --all, jobs in hidden partitions are left out, even those of this user.
        options = ["--all", *(["--states", states] if states else []), "--Format", squeue.FORMAT]
        try:
            answer = squeue.read(call("squeue", "--array", *options))
        except SlurmError as error:
            answer = error
        except ValueError as error:
            answer = SlurmError(f"SLURM's answer can't be read (squeue: '{error!s:.80}'); try again later.")
        _remembered[states] = (time.monotonic(), answer)
    if isinstance(answer, SlurmError):
        raise answer
    return answer


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
