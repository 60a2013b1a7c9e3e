"""Jobs that ended before their run began: the error of their log, by node.

Only logs and attempts are asked: `sacct` needs a database that not every site has, and `scontrol` forgets.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from htbench.harness.show.note import Note
from htbench.harness.store import Store, submissions
from htbench.harness.store.points import Point, filled
from htbench.harness.store.submissions import Submission
from htbench.sweeps.cluster import job_log
from htbench.sweeps.cluster.queue import log_folder

MOST_JOBS = 300  # the newest; more logs take too long to read
MOST_LINES = 3


@dataclass(frozen=True)
class Early:
    """Jobs that ended early on one node for one reason.

    Attributes:
        reason: the error of the newest.
        node: its name in SLURM; empty if nothing tells.
        jobs: their ids, the newest first.
        log: that of the newest.
    """

    reason: str
    node: str
    jobs: list[str]
    log: str


def find(store: Store, sweep: str, points: Sequence[Point], free: Collection[str]) -> list[Early]:
    """The jobs that ended before their run began, by error and node, the most frequent first.

    Args:
        store: the store.
        sweep: the sweep's name.
        points: its points.
        free: the ids of those that wait and have no job in the queue.
    """
    known, groups = {point.id: point for point in points}, dict[tuple[str, str], Early]()
    jobs = [*_last_jobs(submissions.read(store.root, sweep), free)]
    for array, job, id in jobs[:MOST_JOBS]:
        if _began(store, filled(store.root, known[id]), job):
            continue
        path = log_path(store.root, array, job)
        log = job_log.read(path)
        if log is None or not log.error:
            continue
        # Errors that differ in numbers and nodes only are one.
        error = re.sub(r"\d+", "N", log.error.replace(log.node or "NODE", "NODE"))
        group = groups.setdefault((error, log.node), Early(log.error, log.node, [], str(path)))
        group.jobs.append(job)
    return sorted(groups.values(), key=lambda group: -len(group.jobs))


def _last_jobs(arrays: Sequence[Submission], free: Collection[str]) -> Iterator[tuple[Submission, str, str]]:
    """The last job of each of some points, the newest submissions first, with its point."""
    left = set(free)
    for array in reversed(arrays):
        for job, point in array.jobs().items() if array.job else ():
            if point in left:
                yield array, job, point
        left -= set(array.points)


def log_path(root: Path, array: Submission, job: str) -> Path:
    """Where the output of a job goes."""
    return job_log.of_job(log_folder(root, array), job)


def _began(store: Store, point: Point, job: str) -> bool:
    """Whether a job has made an attempt at a run."""
    numbers = range(store.last_attempt(point.key) if point.key else 0, 0, -1)
    owners = (store.attempt(point.key, number).get("owner") or {} for number in numbers)
    return any(owner.get("job") == job for owner in owners)


def notes(sweep: str, ended: Sequence[Early]) -> list[Note]:
    """A note for each error and node, and one for what is left."""
    shown = [
        Note(
            "jobs_ended_early",
            sweep=sweep,
            jobs=len(row.jobs),
            error=row.reason,
            node=row.node,
            log=row.log,
        )
        for row in ended[:MOST_LINES]
    ]
    rest = sum(len(row.jobs) for row in ended[MOST_LINES:])
    return shown + ([Note("more_jobs_ended_early", sweep=sweep, jobs=rest)] if rest else [])
