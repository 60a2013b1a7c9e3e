"""Submissions and SLURM's queue together: which points have a job, why jobs wait, which to cancel.

The name of a job, `sweep.block.word`, tells people in `squeue` what it does, and us by its last word which
submission it is of.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from htbench.harness.show.emit import say
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store, submissions
from htbench.harness.store.owner import current_user
from htbench.harness.store.points import Point, sweep_folder
from htbench.harness.store.submissions import Submission, word_of
from htbench.harness.system import slurm
from htbench.harness.system.slurm import SlurmError
from htbench.harness.system.squeue import Job
from htbench.sweeps.spec.sweep import SweepSpec

LONGEST = 80  # bytes of a block's part of a name
LONGEST_SWEEP = 127  # those of a sweep's: `squeue` shows 300 of both and the word after them
AT_A_TIME = 500  # jobs on the command line of `scancel`
ORDER = "order.json"  # beside the logs of an array: what its jobs are to do


def log_folder(root: Path, submission: Submission) -> Path:
    """Where an array's order is and its jobs' output goes: `<job>_<task>_0_log.out`."""
    return sweep_folder(root.resolve(), submission.sweep) / "logs" / submission.word


def match_jobs(
    arrays: Sequence[Submission], jobs: Mapping[str, Job]
) -> Iterator[tuple[Submission, str, Job]]:
    """The jobs in the queue, of any user, that belong to submissions: submission, point, job."""
    by_word = {array.word: array for array in arrays}
    for job in jobs.values():
        array = by_word.get(word_of(job.name))
        if array is not None and job.task < len(array.points):
            yield array, array.points[job.task], job


def map_jobs(arrays: Sequence[Submission], jobs: Mapping[str, Job]) -> dict[str, Job]:
    """The points that have a job in the queue, of any user: id -> job."""
    return {point: job for _, point, job in match_jobs(arrays, jobs)}


def find_jobs(root: Path, points: Collection[str]) -> dict[str, Job]:
    """Those of the points that have a job in the queue, of any sweep: id -> job.

    SLURM is asked only if one of them was ever submitted; without an answer there is none (`say_if_silent`).
    """
    ids = set(points)
    arrays = [array for array in submissions.read_all(root) if not ids.isdisjoint(array.points)]
    point_jobs = map_jobs(arrays, slurm.recent_queue() or {}) if arrays else {}
    return {point: point_jobs[point] for point in points if point in point_jobs}


def recover_ids(root: Path, jobs: Mapping[str, Job]) -> None:
    """Store the ids of arrays whose submitter was killed before it could.

    Args:
        root: the store, whose submissions the caller has locked.
        jobs: the queue.
    """
    ids = {word_of(job.name): job.array for job in jobs.values()}
    for array in submissions.read_all(root):
        if not array.job and array.word in ids:
            submissions.answer(root, array, job=ids[array.word])


# --- names of jobs ---


def label_blocks(points: Sequence[Point]) -> str:
    """The part of an array's name that tells its blocks: `muon`, or `muon+2` where there are three."""
    first, *rest = dict.fromkeys(point.block for point in points)
    plain = re.sub(r"[^\w.=+-]+", "_", first)  # others have a meaning for a shell or for SLURM
    return plain.encode()[:LONGEST].decode(errors="ignore") + (f"+{len(rest)}" if rest else "")


# --- cancelling ---


def cancel(root: Path, sweep: str, points: Collection[str] | None = None) -> Note:
    """Cancel a sweep's jobs; running ones save first. Raises SlurmError.

    Args:
        root: the store.
        sweep: the sweep's name.
        points: only the jobs for these; None: all of the sweep.

    Returns:
        the number of cancelled jobs, and of other users' jobs, which go on.
    """
    arrays = submissions.read(root, sweep)
    jobs = [
        job
        for _, point, job in match_jobs(arrays, slurm.queue() if arrays else {})
        if points is None or point in points
    ]
    user_jobs = [job for job in jobs if job.user == current_user()]
    # All tasks of an array take one message, some take one for each.
    scancel(sorted({job.array if points is None else job.id for job in user_jobs}))
    return Note("jobs_cancelled", sweep=sweep, jobs=len(user_jobs), others=len(jobs) - len(user_jobs))


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


# --- for screens ---


def say_if_silent(store: Store, specs: Sequence[SweepSpec]) -> None:
    """Print one line if the queue is needed and SLURM does not answer."""
    try:
        if any(submissions.read(store.root, spec.name) for spec in specs):
            slurm.queue(slurm.FRESH)
    except SlurmError as error:
        say(Note("queue_left_out", why=str(error)))


def mark_queued(states: Mapping[str, RunState], jobs: Mapping[str, Job]) -> dict[str, RunState]:
    """The states, with `queued` for waiting runs that have a job."""
    return {
        key: replace(state, status=Status.QUEUED) if state.status is Status.WAITING and key in jobs else state
        for key, state in states.items()
    }


def note_pending(sweep: str, jobs: Mapping[str, Job]) -> list[Note]:
    """Why jobs are pending.

    Args:
        sweep: the sweep's name.
        jobs: by the points that they are for.
    """
    pending = {job.id: job for job in jobs.values() if job.pending}
    reasons = sorted(Counter(job.reason for job in pending.values()).items())
    return [Note("jobs_wait", sweep=sweep, jobs=n, reason=reason) for reason, n in reasons]
