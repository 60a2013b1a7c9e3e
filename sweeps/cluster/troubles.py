"""What `status` and `submit` tell of jobs that went wrong or are no longer wanted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.display import counted
from harness.store import Kind, RunState, Store
from harness.store.points import Point
from harness.system import slurm
from harness.system.squeue import Job
from sweeps.cluster import early_ends, failing_nodes, stale, submissions
from sweeps.cluster.early_ends import EarlyEnd
from sweeps.cluster.failing_nodes import FailingNode
from sweeps.cluster.stale import Outdated, Removed
from sweeps.spec.sweep import SweepSpec


@dataclass
class Troubles:
    """Of one sweep.

    Attributes:
        sweep: its name.
        removed: jobs for points that it no longer has.
        outdated: jobs that wait and ask for other resources than the file.
        ended: jobs that ended before a run of theirs began; their points wait, without a later job.
        nodes: nodes that end jobs early.
        avoid: those that new jobs are to keep off.
    """

    sweep: str
    removed: list[Removed] = field(default_factory=list)
    outdated: list[Outdated] = field(default_factory=list)
    ended: list[EarlyEnd] = field(default_factory=list)
    nodes: list[FailingNode] = field(default_factory=list)
    avoid: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """In words, for `status`."""
        advice = "`htbench sweep submit --exclude-failing` keeps off it, with `--replace` queued jobs, too"
        return [
            *early_ends.lines(self.sweep, self.ended),
            *self._nodes(advice),
            *stale.removed_lines(self.sweep, self.removed),
            *stale.outdated_lines(self.sweep, self.outdated),
        ]

    def lines_of_submit(self, replaced: int | None) -> list[str]:
        """In words, after a submission.

        Args:
            replaced: how many of the outdated jobs were; None: that was not asked for.
        """
        offer = "`htbench sweep submit --replace --exclude-failing` moves the jobs that wait elsewhere"
        began = len(self.outdated) - (replaced or 0)
        begun = [f"{self.sweep}: {counted(began, 'queued job')} began meanwhile and stayed unchanged"]
        return [
            *early_ends.lines(self.sweep, self.ended),
            *self._nodes("the new jobs keep off it" if self.avoid else offer),
            *stale.removed_lines(self.sweep, self.removed),
            *(stale.outdated_lines(self.sweep, self.outdated) if replaced is None else begun * (began > 0)),
        ]

    def _nodes(self, advice: str) -> list[str]:
        return [f"{self.sweep}: {node}; {advice}" for node in self.nodes]

    def to_json(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "removed": [one.to_json() for one in self.removed],
            "outdated": stale.outdated_json(self.outdated),
            "ended_early": early_ends.to_json(self.ended),
            "failing_nodes": [node.to_json() for node in self.nodes],
        }


def look(
    store: Store,
    spec: SweepSpec,
    points: Sequence[Point],
    found: Mapping[str, RunState],
    jobs: Mapping[str, Job] | None = None,
    exclude_failing: bool = False,
) -> Troubles:
    """Collect the troubles of a sweep; none without a submission or an answer of SLURM.

    Args:
        store: the store.
        spec: the sweep.
        points: its points.
        found: their states, by their ids.
        jobs: the queue, read before the states; None: as of at most half a minute ago.
        exclude_failing: whether jobs are to keep off nodes that fail.
    """
    own = submissions.read(store.root, spec.name)
    jobs = slurm.recent_queue() if own and jobs is None else jobs
    if not own or jobs is None:
        return Troubles(spec.name)
    finished = {point.id for point in points if found[point.id].kind is Kind.FINISHED}
    taken = submissions.queued(own, jobs)
    ended = early_ends.find(store, spec.name, points, finished, jobs)
    nodes = failing_nodes.judge(store.root, ended, jobs)
    avoid = tuple(node.node for node in nodes) if exclude_failing else ()
    return Troubles(
        spec.name,
        stale.removed(store.root, spec.name, own, jobs, found),
        stale.outdated(spec, points, own, jobs, avoid),
        _never_begun(ended, {id for id in found if found[id].kind is Kind.WAITING} - taken.keys()),
        nodes,
        avoid,
    )


def _never_begun(ended: Sequence[EarlyEnd], waiting: Collection[str]) -> list[EarlyEnd]:
    """The jobs that ended before their runs began, with those of their points that wait for it."""
    left = [
        replace(one, points=tuple(id for id in one.points if id in waiting)) for one in ended if not one.begun
    ]
    return [one for one in left if one.points]
