"""Winners of a sweep's objectives, and their replicas: the same setting on fresh seeds. Torch-free."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from harness.store import RunState, Store, score
from harness.store.points import REPLICATE, Point
from harness.store.record import RunRecord
from sweeps.plan.planned import Planned, by_objective, filled, plan_point, search_points
from sweeps.plan.states import settled, states
from sweeps.spec.sweep import SweepSpec

# The first of the fresh seeds. No search is likely to use it. Sweeps share it, so that rows can be paired.
FRESH_SEEDS = 1000


def everything(store: Store, spec: SweepSpec) -> list[Planned]:
    """All points of a sweep: the grid or the slots, and the replicas of every settled objective."""
    return everything_with_states(store, spec)[0]


def everything_with_states(store: Store, spec: SweepSpec) -> tuple[list[Planned], dict[str, RunState]]:
    """The points of `everything`, and what became of each by its id."""
    planned = filled(store.root, search_points(spec))
    found = states(store, [one.point for one in planned])
    records = {one.point.key: record for one in planned if (record := found[one.point.id].record) is not None}
    extra: list[Planned] = []
    for group in by_objective(spec, planned):
        if all(settled(found[one.point.id]) for one in group):
            extra += replicas(spec, group, records)
    return planned + extra, found | states(store, [one.point for one in extra])


def replicas(spec: SweepSpec, group: Sequence[Planned], records: Mapping[str, RunRecord]) -> list[Planned]:
    """The winner of an objective on fresh seeds. `winner` chooses it by its mean over the seeds of the grid.

    Args:
        spec: the sweep.
        group: the objective's search points, all of them settled (finished or failed).
        records: of the finished ones, by key. Without any finite metric there is no winner and no replica.
    """
    best = winner([one.point for one in group], records)
    if not best:
        return []
    # Both seeds change, so that the spread has both causes: initial weights and order of the data. The search
    # has used the data seeds of its own points, so these are not fresh.
    seen = {one.config.data_seed for one in group}
    fresh = (
        seed for seed in itertools.count(max(FRESH_SEEDS, *(s + 1 for s in spec.seeds))) if seed not in seen
    )
    settings = [
        best[0].overrides | {"seed": seed, "data_seed": seed}
        for seed in itertools.islice(fresh, spec.fresh_seeds)
    ]
    return [plan_point(spec, best[0].block, REPLICATE, chosen) for chosen in settings]


def winner(points: Sequence[Point], records: Mapping[str, RunRecord]) -> list[Point]:
    """The points of an objective's best candidate, one per seed; empty if no candidate has all its scores.

    Args:
        points: of the objective's search.
        records: of the finished ones, by key.
    """
    twins: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    for point in points:
        twins.setdefault(point.candidate(), []).append(point)
    scores: dict[tuple[tuple[str, str], ...], score.Score | None] = {
        candidate: score.mean_score(
            [score.score(records[p.key]) if p.key in records else None for p in seeds]
        )
        for candidate, seeds in twins.items()
    }
    best = score.winner(scores)[0]
    return twins[best] if best is not None else []
