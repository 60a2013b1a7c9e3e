"""Winners of a sweep's objectives, and their replicas: the same setting on fresh seeds. Torch-free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.choice.winner import best_runs, grouped, score
from harness.store import RunState, Store
from harness.store.points import REPLICATE, SEARCH, Point
from harness.store.record import RunRecord
from sweeps.plan.planned import (
    Planned,
    by_objective,
    filled,
    objective,
    plan_point,
    replica_seeds,
    search_points,
)
from sweeps.plan.states import settled, states
from sweeps.plan.stored import kept
from sweeps.spec.sweep import SweepSpec


def everything(store: Store, spec: SweepSpec) -> list[Planned]:
    """All points of a sweep: the grid or the slots, and the replicas of every settled objective.

    Of an objective that is open again, as the grid was extended, they are those that are planned already.
    """
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
    extra += kept(store.root, spec, planned + extra)
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
    settings = [best[0].overrides | {"seed": seed, "data_seed": seed} for seed in replica_seeds(spec, group)]
    return [plan_point(spec, best[0].block, REPLICATE, chosen) for chosen in settings]


def due(spec: SweepSpec, points: Sequence[Point], found: Mapping[str, RunState]) -> list[Point]:
    """The winner of each settled objective, once for each of its replicas that is not among the points yet.

    It makes no config, so it is quick, and does without the parts that the sweep names.

    Args:
        spec: the sweep.
        points: its points as planned.
        found: their states, by their ids.
    """
    searched = [point for point in points if point.stage == SEARCH]
    groups = grouped(searched, lambda point: objective(point, spec))
    planned = Counter((objective(p, spec), p.candidate()) for p in points if p.stage != SEARCH)
    to_come = []
    for name, group in groups.items():
        if all(settled(found[point.id]) for point in group):
            records = {p.key: record for p in group if (record := found[p.id].record) is not None}
            for point in winner(group, records)[:1]:
                to_come += [point] * (spec.fresh_seeds - planned[name, point.candidate()])
    return to_come


def winner(points: Sequence[Point], records: Mapping[str, RunRecord]) -> list[Point]:
    """The points of an objective's best candidate, one per seed; empty if no candidate has all its scores.

    Args:
        points: of the objective's search.
        records: of the finished ones, by key.
    """
    return best_runs(
        points, Point.candidate, lambda point: score(records[point.key]) if point.key in records else None
    )
