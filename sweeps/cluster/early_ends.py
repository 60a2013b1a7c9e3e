"""Jobs that ended before their run began: the error of their log, by node.

Only logs and attempts are asked: `sacct` needs a database that not every site has, and `scontrol` forgets.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from htbench.harness.show.note import Note
from htbench.harness.store import Store
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
        node: its name in SLURM; empty if the log does not have it.
        jobs: their ids, the newest first.
        log: that of the newest.
    """

    reason: str
    node: str
    jobs: list[str]
    log: str


def find_early_ends(
    store: Store, arrays: Sequence[Submission], points: Sequence[Point], free: Collection[str]
) -> list[Early]:
    """The jobs that ended before their run began, by error and node, the most frequent first.

    Args:
        store: the store.
        arrays: the submissions of a sweep.
        points: its points.
        free: the ids of those that wait and have no job in the queue.
    """
    by_id, groups = {point.id: point for point in points}, dict[tuple[str, str], Early]()
    jobs, waiting = list[tuple[Submission, str, str]](), set(free)
    for array in reversed(arrays):  # the last job of each point counts
        jobs += [(array, job, id) for job, id in array.jobs().items() if array.job and id in waiting]
        waiting -= set(array.points)
    for array, job, id in jobs[:MOST_JOBS]:
        key = filled(store.root, by_id[id]).key
        attempts = range(store.last_attempt(key) if key else 0, 0, -1)
        if any((store.attempt(key, number).get("owner") or {}).get("job") == job for number in attempts):
            continue  # its run has begun
        path = job_log.log_path(log_folder(store.root, array), job)
        log = job_log.read(path)
        if log is None or not log.error:
            continue
        # Errors that differ in numbers and nodes only are one.
        error = re.sub(r"\d+", "N", log.error.replace(log.node or "NODE", "NODE"))
        group = groups.setdefault((error, log.node), Early(log.error, log.node, [], str(path)))
        group.jobs.append(job)
    return sorted(groups.values(), key=lambda group: -len(group.jobs))


def make_notes(sweep: str, ended: Sequence[Early]) -> list[Note]:
    """A note for each error and node, and one for all jobs beyond `MOST_LINES` of them."""
    notes = [
        Note("jobs_ended_early", **vars(row) | {"sweep": sweep, "jobs": len(row.jobs)})
        for row in ended[:MOST_LINES]
    ]
    rest = sum(len(row.jobs) for row in ended[MOST_LINES:])
    return notes + ([Note("more_jobs_ended_early", sweep=sweep, jobs=rest)] if rest else [])
