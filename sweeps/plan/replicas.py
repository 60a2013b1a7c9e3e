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
    """The grid or the slots, and the replicas of every objective all of whose points are settled."""
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
    """One objective's winner on fresh seeds: the best candidate by the shared rule, over the grid's seeds.

    Args:
        spec: the sweep.
        group: the objective's search points, all of them settled (finished or failed).
        records: of the finished ones, by key. An objective without any figure has no winner and no replicas.
    """
    best = winner([one.point for one in group], records)
    if not best:
        return []
    # Initial weights and data order both change: the spread is that of a run, not of one of its halves.
    # An order of the data by which the winner was chosen is not fresh.
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
    """The best candidate of an objective as its points, one for each seed; empty if none has all its figures.

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
