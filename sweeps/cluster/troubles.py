"""Jobs that went wrong or are no longer wanted, for `status`, `submit` and `reap`."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store, submissions
from htbench.harness.store.owner import current_user
from htbench.harness.store.points import Point, read_points, sweep_names
from htbench.harness.store.submissions import Submission
from htbench.harness.system import slurm
from htbench.harness.system.squeue import Job
from htbench.sweeps.cluster import early_ends, queue
from htbench.sweeps.cluster.early_ends import Early
from htbench.sweeps.plan.planned import block_of, states
from htbench.sweeps.spec.resources import differences, words
from htbench.sweeps.spec.sweep import SweepSpec

MOST_NAMED = 6  # jobs in a sentence
RUNS = "points"  # the name of a change that is none of a resource


@dataclass(frozen=True)
class Removed:
    """A job for points none of which is wanted any more, or several of them.

    Attributes:
        point: the first of its points.
        points: all points of that job.
        job: its id.
        state: in SLURM.
        user: whose it is.
    """

    point: str
    points: tuple[str, ...]
    job: str
    state: str
    user: str


@dataclass(frozen=True)
class Outdated:
    """Jobs that wait and ask for something else than the file.

    Attributes:
        jobs: their ids.
        asked: name of a resource -> what they ask for. Of `points` there is a change, too, if only some of
            them are wanted.
        now: the same names -> what the file says.
        _jobs: each job with the ids of its points.
    """

    jobs: list[str]
    asked: Mapping[str, Any]
    now: Mapping[str, Any]
    _jobs: list[tuple[Job, tuple[str, ...]]]


@dataclass(frozen=True)
class Troubles:
    """What is wrong with the jobs of a sweep.

    Attributes:
        removed: jobs for points that it no longer has.
        outdated: jobs that wait and ask for other resources than the file, by what differs.
        ended_early: jobs that ended before a run of theirs began; their points wait, without a later job.
    """

    removed: list[Removed] = field(default_factory=list)
    outdated: list[Outdated] = field(default_factory=list)
    ended_early: list[Early] = field(default_factory=list)

    def notes(self, sweep: str, *, replaced: int | None = None) -> list[Note]:
        """For people; `replaced`: how many of the outdated jobs were; None: that was not asked for."""
        began = sum(len(group.jobs) for group in self.outdated) - (replaced or 0)
        stayed = [Note("jobs_began_meanwhile", sweep=sweep, jobs=began)] if began else []
        return [
            *early_ends.notes(sweep, self.ended_early),
            *_of_removed(sweep, self.removed),
            *(stayed if replaced is not None else [_of_outdated(sweep, one) for one in self.outdated]),
        ]


def look(
    store: Store,
    spec: SweepSpec,
    points: Sequence[Point],
    known: Mapping[str, RunState],
    jobs: Mapping[str, Job] | None = None,
) -> Troubles:
    """Collect the troubles of a sweep; none without a submission or an answer of SLURM.

    Args:
        store: the store.
        spec: the sweep.
        points: its points.
        known: their states, by their ids.
        jobs: the queue, read before the states; None: as of at most half a minute ago.
    """
    arrays = submissions.read(store.root, spec.name)
    jobs = slurm.recent_queue() if arrays and jobs is None else jobs
    if not arrays or jobs is None:
        return Troubles()
    free = {id for id in known if known[id].status is Status.WAITING} - queue.queued(arrays, jobs).keys()
    return Troubles(
        removed(store.root, spec.name, arrays, jobs, known),
        outdated(spec, points, arrays, jobs),
        early_ends.find(store, spec.name, points, free),
    )


# --- points that are wanted no more ---


def removed(
    root: Path, sweep: str, arrays: Sequence[Submission], jobs: Mapping[str, Job], wanted: Collection[str]
) -> list[Removed]:
    """The jobs in the queue whose points are wanted neither by their sweep nor by another one of the store.

    Args:
        root: the store.
        sweep: the sweep's name.
        arrays: its submissions.
        jobs: the queue.
        wanted: the ids of its points.
    """
    mine = set(wanted)
    rest = [(points, job) for _, points, job in queue.in_queue(arrays, jobs) if mine.isdisjoint(points)]
    others = {point.id for own in of_others(root, sweep).values() for point in own} if rest else set[str]()
    return [
        Removed(points[0], points, job.id, job.state, job.user)
        for points, job in rest
        if others.isdisjoint(points)
    ]


def of_others(root: Path, sweep: str) -> dict[str, list[Point]]:
    """The points of the other sweeps of the store, by their names."""
    plans = dict[str, list[Point]]()
    for name in sweep_names(root):
        with contextlib.suppress(UsageError):  # a damaged plan is told where it is needed
            plans |= {name: read_points(root, name)} if name != sweep else {}
    return plans


def left_to_others(store: Store, sweep: str, gone: Collection[str]) -> dict[str, int]:
    """How many unfinished points without a job other sweeps want: sweep -> number.

    Args:
        store: the store.
        sweep: the sweep whose jobs were exchanged.
        gone: points of these jobs that it wants no more and that have no other job.
    """
    counts = {}
    for name, points in of_others(store.root, sweep).items() if gone else ():
        own = states(store, [point for point in points if point.id in gone]).values()
        counts[name] = sum(not state.status.is_settled for state in own)
    return {name: n for name, n in counts.items() if n}


def _of_removed(sweep: str, jobs: Sequence[Removed]) -> list[Note]:
    if not jobs:
        return []
    named = [
        Note("job_of_points", job=one.job, point=one.point, more=len(one.points) - 1)
        for one in jobs[:MOST_NAMED]
    ]
    points, more = len({point for one in jobs for point in one.points}), len(jobs) - len(named)
    return [Note("jobs_unwanted", sweep=sweep, jobs=len(jobs), points=points, named=named, more=more)]


# --- other resources ---


def outdated(
    spec: SweepSpec,
    points: Sequence[Point],
    arrays: Sequence[Submission],
    jobs: Mapping[str, Job],
) -> list[Outdated]:
    """The jobs of this user that wait and ask for something else than the file, by what that is.

    Args:
        spec: the sweep.
        points: its points.
        arrays: its submissions.
        jobs: the queue.
    """
    wanted = {point.id: point for point in points}
    groups: list[Outdated] = []
    for array, ids, job in queue.in_queue(arrays, jobs):
        still = [wanted[id] for id in ids if id in wanted]
        if not still or not job.pending or job.user != current_user() or not array.resources:
            continue
        changes = differences(array.resources, block_of(spec, still[0]).resources.asked(still[0].processes))
        if len(still) < len(ids):
            changes[RUNS] = (len(ids), len(still))
        if changes:
            asked, now = ({name: pair[which] for name, pair in changes.items()} for which in (0, 1))
            group = next((one for one in groups if (one.asked, one.now) == (asked, now)), None)
            if group is None:
                groups.append(group := Outdated([], asked, now, []))
            group.jobs.append(job.id)
            group._jobs.append((job, ids))
    return groups


def _of_outdated(sweep: str, group: Outdated) -> Note:
    asked, now = ({k: v for k, v in side.items() if k != RUNS} for side in (group.asked, group.now))
    parts = [Note("job_asks_otherwise", asked=words(asked), now=words(now))] if now else []
    if RUNS in group.now:
        parts.append(Note("job_has_more_runs", before=group.asked[RUNS], now=group.now[RUNS]))
    return Note("jobs_outdated", sweep=sweep, jobs=len(group.jobs), parts=parts)
