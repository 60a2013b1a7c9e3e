"""Submissions and SLURM's queue together: which points have a job, and which jobs to cancel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.store.owner import current_user
from harness.store.submissions import Submission, answer, intend, read, read_all
from harness.system import slurm
from harness.system.slurm import SlurmError
from harness.system.squeue import Job

# Names of the file's reader and writer are here, too: other modules need no second import.
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
    """The points that have a job in the queue, of any user: id -> job."""
    known = {one.name: one for one in submissions}
    found: dict[str, Job] = {}
    for job in jobs.values():
        submission = known.get(job.name)
        _, _, task = job.id.partition("_")
        if submission is not None and int(task or 0) < len(submission.points):
            found[submission.points[int(task or 0)]] = job
    return found


def unanswered(submissions: Sequence[Submission], jobs: Mapping[str, Job]) -> list[Submission]:
    """Submissions in the queue whose submitter died before it stored their id, now with that id."""
    arrays = {job.name: job.array for job in jobs.values()}
    return [replace(one, job=arrays[one.name]) for one in submissions if not one.job and one.name in arrays]


def jobs_for(root: Path, points: Collection[str], age: float = 0.0) -> dict[str, Job]:
    """Those of the points that have a job in the queue, of any sweep: id -> job.

    SLURM is asked only if one of them was ever submitted. Its answer may be `age` seconds old.

    Raises:
        SlurmError: it does not answer.
    """
    submitted = [one for one in read_all(root) if not set(points).isdisjoint(one.points)]
    found = queued(submitted, slurm.queue(age)) if submitted else {}
    return {point: found[point] for point in points if point in found}


def cancel(root: Path, sweep: str) -> tuple[int, int]:
    """Cancel a sweep's jobs; running ones save first. Raises SlurmError.

    Returns:
        the number of cancelled jobs, and the number of other users' jobs, which go on.
    """
    names = {one.name for one in read(root, sweep)}
    jobs = [job for job in slurm.queue().values() if job.name in names] if names else []
    ours = [job for job in jobs if job.user == current_user()]
    scancel(sorted({job.array for job in ours}))  # one message each, however many tasks
    return len(ours), len(jobs) - len(ours)


def scancel(ids: Sequence[str]) -> None:
    """Cancel jobs, in batches. Raises SlurmError after the last batch if one was refused."""
    refused = None
    for first in range(0, len(ids), AT_A_TIME):
        try:
            # --quiet: no error for a job that has just ended.
            slurm.call("scancel", "--quiet", *ids[first : first + AT_A_TIME])
        except SlurmError as error:
            refused = error
    if refused is not None:
        raise refused
