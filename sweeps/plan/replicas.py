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
from sweeps.plan.states import states
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
    known = states(store, [p.point for p in planned])
    extra: list[Planned] = []
    for group in by_objective(spec, planned):
        if all(known[p.point.id].status.is_settled for p in group):
            extra += replicas(spec, group, _records([p.point for p in group], known))
    extra += kept(store.root, spec, planned + extra)
    return planned + extra, known | states(store, [p.point for p in extra])


def _records(points: Sequence[Point], known: Mapping[str, RunState]) -> dict[str, RunRecord]:
    """The records of those points that have one, by their keys."""
    return {point.key: record for point in points if (record := known[point.id].record) is not None}


def replicas(spec: SweepSpec, group: Sequence[Planned], records: Mapping[str, RunRecord]) -> list[Planned]:
    """The winner of an objective on fresh seeds. `winner` chooses it by its mean over the seeds of the grid.

    Args:
        spec: the sweep.
        group: the objective's search points, all of them settled (finished or failed).
        records: of the finished ones, by key. Without any finite metric there is no winner and no replica.
    """
    best = winner([p.point for p in group], records)[:1]
    return [
        plan_point(spec, point.block, REPLICATE, point.overrides | {"seed": seed, "data_seed": seed})
        for point in best
        for seed in replica_seeds(spec, group)
    ]


def due(spec: SweepSpec, points: Sequence[Point], known: Mapping[str, RunState]) -> list[Point]:
    """The winner of each settled objective, once for each of its replicas that is not among the points yet.

    It makes no config, so it is quick, and does without the parts that the sweep names.

    Args:
        spec: the sweep.
        points: its points as planned.
        known: their states, by their ids.
    """
    groups = grouped([p for p in points if p.stage == SEARCH], lambda point: objective(point, spec))
    planned = Counter((objective(p, spec), p.candidate()) for p in points if p.stage != SEARCH)
    to_come = []
    for name, group in groups.items():
        if all(known[point.id].status.is_settled for point in group):
            for point in winner(group, _records(group, known))[:1]:
                to_come += [point] * (spec.fresh_seeds - planned[name, point.candidate()])
    return to_come


def winner(points: Sequence[Point], records: Mapping[str, RunRecord]) -> list[Point]:
    """The points of an objective's best candidate, one per seed; empty if no candidate has all its scores.

    Args:
        points: of the objective's search.
        records: of the finished ones, by key.
    """
    scores = {key: score(record) for key, record in records.items()}
    return best_runs(points, Point.candidate, lambda point: scores.get(point.key))
