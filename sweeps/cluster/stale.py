"""Queued jobs that the sweep file has left behind: their points are gone, or ask for other resources."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.owner import current_user
from harness.store.points import Point, read_points, sweep_names
from harness.system.squeue import Job
from sweeps.cluster import submissions
from sweeps.cluster.submissions import Submission
from sweeps.plan.planned import block_of
from sweeps.spec.resources import differences
from sweeps.spec.sweep import SweepSpec

MOST_NAMED = 6  # jobs on one line


@dataclass(frozen=True)
class Removed:
    """A job for a point that the sweep no longer has."""

    point: str
    job: Job

    def to_json(self) -> dict[str, Any]:
        """The job in plain values."""
        return {"point": self.point, "job": self.job.id, "state": self.job.state, "user": self.job.user}


@dataclass(frozen=True)
class Outdated:
    """A job that waits and asks for other resources than the file.

    Attributes:
        point: the id of its point.
        job: the job.
        changes: name of a resource -> what the job asks for, what the file says.
    """

    point: str
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
    found = [Removed(point, job) for _, point, job in submissions.in_queue(own, jobs) if point not in wanted]
    others = _wanted_by_others(root, sweep) if found else set()
    return [one for one in found if one.point not in others]


def _wanted_by_others(root: Path, sweep: str) -> set[str]:
    found = set[str]()
    for name in sweep_names(root):
        with contextlib.suppress(UsageError):  # a damaged plan is told where it is needed
            found |= {point.id for point in read_points(root, name)} if name != sweep else set()
    return found


def outdated(
    spec: SweepSpec,
    points: Sequence[Point],
    own: Sequence[Submission],
    jobs: Mapping[str, Job],
    avoid: Collection[str] = (),
) -> list[Outdated]:
    """The jobs of this user that wait and ask for other resources than the file.

    Args:
        spec: the sweep.
        points: its points.
        own: its submissions.
        jobs: the queue.
        avoid: nodes that jobs must keep off in addition.
    """
    wanted = {point.id: point for point in points}
    found = []
    for one, id, job in submissions.in_queue(own, jobs):
        if id not in wanted or not job.pending or job.user != current_user() or not one.resources:
            continue
        point = wanted[id]
        now = block_of(spec, point).resources.describe(point.processes)
        changes = differences(one.resources, now)
        if not set(avoid) <= set(one.excluded.split(",")):
            changes["failing nodes excluded"] = (one.excluded or "None", ",".join(avoid))
        if changes:
            found.append(Outdated(id, job, changes))
    return found


# --- in words ---


def removed_lines(sweep: str, found: Sequence[Removed]) -> list[str]:
    """What the queue holds for points that the sweep no longer has; empty without any."""
    if not found:
        return []
    named = ", ".join(f"{one.job.id} for {one.point}" for one in found[:MOST_NAMED])
    rest = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    points = len({one.point for one in found})
    return [
        f"{sweep}: {len(found)} jobs in the queue are for {points} points that the sweep no longer has "
        f"({named}{rest}); `htbench sweep reap` cancels those that wait"
    ]


def outdated_lines(sweep: str, found: Sequence[Outdated]) -> list[str]:
    """A line for each change of resources that queued jobs do not know of."""
    return [
        f"{sweep}: {len(group)} queued jobs ask for {_words(changes, 0)}, the file now says "
        f"{_words(changes, 1)}; `htbench sweep submit --replace` exchanges them"
        for changes, group in _grouped(found)
    ]


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
