"""Submissions and SLURM's queue together: which points have a job, and which jobs to cancel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.store.owner import current_user
from harness.store.submissions import Submission, answer, intend, read, read_all, word_of
from harness.system import slurm
from harness.system.slurm import SlurmError
from harness.system.squeue import Job

# Names of the file's reader and writer are here, too: other modules need no second import.
__all__ = [
    "Submission",
    "answer",
    "cancel",
    "cancel_pending",
    "in_queue",
    "intend",
    "jobs_for",
    "queued",
    "read",
    "read_all",
    "scancel",
    "unanswered",
]

AT_A_TIME = 500  # jobs on the command line of `scancel`


def in_queue(
    submissions: Sequence[Submission], jobs: Mapping[str, Job]
) -> Iterator[tuple[Submission, tuple[str, ...], Job]]:
    """The jobs in the queue, of any user, that belong to submissions: submission, points, job."""
    known = {one.word: one for one in submissions}
    for job in jobs.values():
        submission = known.get(word_of(job.name))
        points = _points(submission, job) if submission is not None else ()
        if submission is not None and points:
            yield submission, points, job


def queued(submissions: Sequence[Submission], jobs: Mapping[str, Job]) -> dict[str, Job]:
    """The points that have a job in the queue, of any user: id -> job."""
    return {point: job for _, points, job in in_queue(submissions, jobs) for point in points}


def _points(submission: Submission, job: Job) -> tuple[str, ...]:
    """The points that a job of a submission is for; none if it has no such task."""
    return submission.share(int(job.id.partition("_")[2] or 0))


def unanswered(submissions: Sequence[Submission], jobs: Mapping[str, Job]) -> list[Submission]:
    """Submissions in the queue whose submitter died before it stored their id, now with that id."""
    arrays = {word_of(job.name): job.array for job in jobs.values()}
    return [replace(one, job=arrays[one.word]) for one in submissions if not one.job and one.word in arrays]


def jobs_for(root: Path, points: Collection[str], age: float = 0.0) -> dict[str, Job]:
    """Those of the points that have a job in the queue, of any sweep: id -> job.

    SLURM is asked only if one of them was ever submitted. Its answer may be `age` seconds old.

    Raises:
        SlurmError: it does not answer.
    """
    wanted = set(points)
    submitted = [one for one in read_all(root) if not wanted.isdisjoint(one.points)]
    found = queued(submitted, slurm.queue(age)) if submitted else {}
    return {point: found[point] for point in points if point in found}


def cancel(
    root: Path, sweep: str, points: Collection[str] | None = None, spared: Collection[str] = ()
) -> tuple[int, int, int]:
    """Cancel a sweep's jobs; running ones save first. Raises SlurmError.

    Args:
        root: the store.
        sweep: the sweep's name.
        points: only the jobs for these; None: all of the sweep.
        spared: other points; a job that has one of these, too, goes on.

    Returns:
        the number of cancelled jobs, of other users' jobs, which go on, and of ours that go on for `spared`.
    """
    known = {one.word: one for one in read(root, sweep)}
    jobs = [job for job in slurm.queue().values() if word_of(job.name) in known] if known else []
    going_on: list[Job] = []
    if points is not None:
        wanted, kept = set(points), set(spared) - set(points)
        shares = [(job, _points(known[word_of(job.name)], job)) for job in jobs]
        shares = [(job, own) for job, own in shares if not wanted.isdisjoint(own)]
        jobs = [job for job, own in shares if kept.isdisjoint(own)]
        going_on = [job for job, own in shares if job.user == current_user() and not kept.isdisjoint(own)]
    ours = [job for job in jobs if job.user == current_user()]
    # All tasks of an array take one message, some take one for each.
    scancel(sorted({job.array if points is None else job.id for job in ours}))
    return len(ours), len(jobs) - len(ours), len(going_on)


def cancel_pending(jobs: Sequence[Job], queue: Mapping[str, Job]) -> None:
    """Cancel those of our jobs that have not begun.

    Whole arrays are cancelled without a race: SLURM leaves alone what has begun meanwhile. Of a part of an
    array it can't: asked for waiting tasks only, SLURM 22.05 cancels all that wait (seen). There a job that
    begins in this moment saves and ends.

    Args:
        jobs: to cancel.
        queue: all jobs; an array of which every waiting task goes needs one message only.

    Raises:
        SlurmError: SLURM does not answer.
    """
    going = {job.id for job in jobs}
    kept = {job.array for job in queue.values() if job.pending and job.id not in going}
    whole = dict.fromkeys(job.array for job in jobs if job.array not in kept)
    scancel(list(whole), "--state=PENDING")
    scancel([job.id for job in jobs if job.array in kept])


def scancel(ids: Sequence[str], *options: str) -> None:
    """Cancel jobs, in batches. Raises SlurmError after the last batch if one was refused."""
    refused = None
    for first in range(0, len(ids), AT_A_TIME):
        try:
            # --quiet: no error for a job that has just ended.
            slurm.call("scancel", "--quiet", *options, *ids[first : first + AT_A_TIME])
        except SlurmError as error:
            refused = error
    if refused is not None:
        raise refused
