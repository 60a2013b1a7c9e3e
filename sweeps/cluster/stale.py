"""Queued jobs that the sweep file has left behind: their points are gone, or ask for other resources."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.display import counted
from harness.errors import UsageError
from harness.store import Store
from harness.store.owner import current_user
from harness.store.points import Point, read_points, sweep_names
from harness.system.squeue import Job
from sweeps.cluster import submissions
from sweeps.cluster.submissions import Submission
from sweeps.plan.planned import block_of
from sweeps.plan.states import settled, states
from sweeps.spec.resources import differences
from sweeps.spec.sweep import SweepSpec

MOST_NAMED = 6  # jobs on one line
# Names of changes that are none of a resource.
RUNS, AVOIDED = "points", "failing nodes excluded"


@dataclass(frozen=True)
class Removed:
    """A job for points none of which is wanted any more."""

    points: tuple[str, ...]
    job: Job

    def to_json(self) -> dict[str, Any]:
        """The job in plain values."""
        named = {"point": self.points[0], "points": list(self.points)}
        return {**named, "job": self.job.id, "state": self.job.state, "user": self.job.user}


@dataclass(frozen=True)
class Outdated:
    """A job that waits and asks for other resources than the file.

    Attributes:
        points: the ids of its points.
        job: the job.
        changes: name of a resource -> what the job asks for, what the file says. Of `points` there are
            changes, too, if only some of them are wanted.
    """

    points: tuple[str, ...]
    job: Job
    changes: Mapping[str, tuple[str, str]]


def removed(
    root: Path, sweep: str, own: Sequence[Submission], jobs: Mapping[str, Job], wanted: Collection[str]
) -> list[Removed]:
    """The jobs in the queue whose points are wanted neither by their sweep nor by another one of the store.

    Args:
        root: the store.
        sweep: the sweep's name.
        own: its submissions.
        jobs: the queue.
        wanted: the ids of its points.
    """
    queue = submissions.in_queue(own, jobs)
    found = [Removed(points, job) for _, points, job in queue if wanted_none(points, wanted)]
    others = wanted_by_others(root, sweep) if found else set()
    return [one for one in found if wanted_none(one.points, others)]


def wanted_none(points: Collection[str], wanted: Collection[str]) -> bool:
    """Whether none of a job's points is wanted."""
    return not any(point in wanted for point in points)


def wanted_by_others(root: Path, sweep: str) -> set[str]:
    """The points that other sweeps of the store want."""
    return {point.id for points in of_others(root, sweep).values() for point in points}


def of_others(root: Path, sweep: str) -> dict[str, list[Point]]:
    """The points of the other sweeps of the store, by their names."""
    found = dict[str, list[Point]]()
    for name in sweep_names(root):
        with contextlib.suppress(UsageError):  # a damaged plan is told where it is needed
            found |= {name: read_points(root, name)} if name != sweep else {}
    return found


def left_to_others(store: Store, sweep: str, gone: Collection[str]) -> dict[str, int]:
    """How many unfinished points without a job other sweeps want: sweep -> number.

    Args:
        store: the store.
        sweep: the sweep whose jobs were exchanged.
        gone: points of these jobs that it wants no more and that have no other job.
    """
    others = of_others(store.root, sweep) if gone else {}
    own = {name: [point for point in points if point.id in gone] for name, points in others.items()}
    found = {
        name: sum(not settled(state) for state in states(store, points).values())
        for name, points in own.items()
    }
    return {name: n for name, n in found.items() if n}


def outdated(
    spec: SweepSpec,
    points: Sequence[Point],
    own: Sequence[Submission],
    jobs: Mapping[str, Job],
    avoid: Collection[str] = (),
) -> list[Outdated]:
    """The jobs of this user that wait and ask for something else than the file.

    Args:
        spec: the sweep.
        points: its points.
        own: its submissions.
        jobs: the queue.
        avoid: nodes that jobs must keep off in addition.
    """
    wanted = {point.id: point for point in points}
    found = []
    for one, ids, job in submissions.in_queue(own, jobs):
        still = [wanted[id] for id in ids if id in wanted]
        if not still or not job.pending or job.user != current_user() or not one.resources:
            continue
        now = block_of(spec, still[0]).resources.asked(still[0].processes)
        changes = differences(one.resources, now)
        if not set(avoid) <= set(one.excluded.split(",")):
            changes[AVOIDED] = (one.excluded or "None", ",".join(avoid))
        if len(still) < len(ids):
            changes[RUNS] = (str(len(ids)), str(len(still)))
        if changes:
            found.append(Outdated(ids, job, changes))
    return found


# --- in words ---


def removed_lines(sweep: str, found: Sequence[Removed]) -> list[str]:
    """What the queue holds for points that the sweep no longer has; empty without any."""
    if not found:
        return []
    named = ", ".join(f"{one.job.id} for {_names(one.points)}" for one in found[:MOST_NAMED])
    rest = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    points = len({point for one in found for point in one.points})
    return [
        f"{sweep}: {counted(len(found), 'job in the queue is', 'jobs in the queue are')} for "
        f"{counted(points, 'point')} that the sweep no longer has "
        f"({named}{rest}); `htbench sweep reap` cancels those that wait"
    ]


def _names(points: Sequence[str]) -> str:
    return points[0] + (f" and {len(points) - 1} more" if len(points) > 1 else "")


def outdated_lines(sweep: str, found: Sequence[Outdated]) -> list[str]:
    """A line for each change that queued jobs do not know of."""
    return [
        f"{sweep}: {counted(len(group), 'queued job')} {_sentence(changes)}; "
        f"`htbench sweep submit --replace` exchanges them"
        for changes, group in _grouped(found)
    ]


def _sentence(changes: Mapping[str, tuple[str, str]]) -> str:
    wants = {name: pair for name, pair in changes.items() if name not in (RUNS, AVOIDED)}
    parts = [f"asked for {_words(wants, 0)}, the file now says {_words(wants, 1)}"] if wants else []
    if AVOIDED in changes:
        parts.append(f"did not keep off {changes[AVOIDED][1]}")
    if RUNS in changes:
        before, now = changes[RUNS]
        parts.append(f"had {before} runs each, the file now has {now} of these")
    return ", and ".join(parts)


def outdated_json(found: Sequence[Outdated]) -> list[dict[str, Any]]:
    """A row for each change."""
    return [
        {
            "jobs": [one.job.id for one in group],
            "asked": {name: pair[0] for name, pair in changes.items()},
            "now": {name: pair[1] for name, pair in changes.items()},
        }
        for changes, group in _grouped(found)
    ]


def _grouped(found: Sequence[Outdated]) -> list[tuple[Mapping[str, tuple[str, str]], list[Outdated]]]:
    groups: dict[tuple[Any, ...], list[Outdated]] = {}
    for one in found:
        groups.setdefault(tuple(one.changes.items()), []).append(one)
    return [(group[0].changes, group) for group in groups.values()]


def _words(changes: Mapping[str, tuple[str, str]], which: int) -> str:
    return " ".join(f"{name}={pair[which]}" for name, pair in changes.items())
