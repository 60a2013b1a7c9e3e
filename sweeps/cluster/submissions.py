"""The submissions of a store beside SLURM's queue: which points have a job, and whose jobs to cancel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.store.owner import current_user
from harness.store.submissions import Submission, answer, intend, read, read_all
from harness.system import slurm
from harness.system.slurm import Job, SlurmError

# The file itself is the store's; what is known of it is used under one name.
__all__ = [
    "Submission",
    "answer",
    "cancel",
    "intend",
    "jobs_for",
    "queued",
    "read",
    "read_all",
    "scancel",
    "unanswered",
]

AT_A_TIME = 500  # jobs on the command line of `scancel`


def queued(submissions: Sequence[Submission], jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Which points have a job in the queue, whoever submitted it: id -> its job."""
    known = {one.name: one for one in submissions}
    found: dict[str, Job] = {}
    for job in jobs.values():
        submission = known.get(job.name)
        _, _, task = job.id.partition("_")
        if submission is not None and int(task or 0) < len(submission.points):
            found[submission.points[int(task or 0)]] = job
    return found


def unanswered(submissions: Sequence[Submission], jobs: Mapping[str, Job]) -> list[Submission]:
    """Submissions in the queue whose submitter died before noting their id, with that id."""
    arrays = {job.name: job.array for job in jobs.values()}
    return [replace(one, job=arrays[one.name]) for one in submissions if not one.job and one.name in arrays]


def jobs_for(root: Path, points: Collection[str], age: float = 0.0) -> dict[str, Job]:
    """Which of these points have a job in the queue, whichever sweep submitted it: id -> job.

    SLURM is asked only if any of them was ever submitted, and its answer may be `age` seconds old.

    Raises:
        SlurmError: it does not answer.
    """
    submitted = [one for one in read_all(root) if not set(points).isdisjoint(one.points)]
    found = queued(submitted, slurm.queue(age)) if submitted else {}
    return {point: found[point] for point in points if point in found}


def cancel(root: Path, sweep: str) -> tuple[int, int]:
    """Take a sweep's jobs out of the queue; those at work are told to save first. Raises SlurmError.

    Returns:
        how many of ours, and how many of other people were left alone.
    """
    names = {one.name for one in read(root, sweep)}
    jobs = [job for job in slurm.queue().values() if job.name in names] if names else []
    ours = [job for job in jobs if job.user == current_user()]
    scancel(sorted({job.array for job in ours}))  # one message each, however many tasks
    return len(ours), len(jobs) - len(ours)


def scancel(ids: Sequence[str]) -> None:
    """Cancel jobs, as many as can be. Raises SlurmError if some can't."""
    refused = None
    for first in range(0, len(ids), AT_A_TIME):
        try:
            # Quiet about those that have just ended.
            slurm.call("scancel", "--quiet", *ids[first : first + AT_A_TIME])
        except SlurmError as error:
            refused = error
    if refused is not None:
        raise refused
