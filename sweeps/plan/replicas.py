"""What follows on results: rounds that refine a rate, then replicas of winners. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from htbench.harness.choice.refine import next_rates
from htbench.harness.choice.winner import best_runs, grouped, mean_score, score
from htbench.harness.config.settings import FIELDS
from htbench.harness.store import RunState, Store
from htbench.harness.store.points import REPLICATE, SEARCH, Point
from htbench.harness.store.record import RunRecord
from htbench.sweeps.plan.planned import (
    Planned,
    by_objective,
    filled,
    line,
    objective,
    plan_point,
    replica_seeds,
    states,
)
from htbench.sweeps.plan.stored import replicas_to_keep, searched
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import Settings, SweepSpec


def everything(store: Store, spec: SweepSpec) -> list[Planned]:
    """All points of a sweep: the grid, the rounds or the slots, and the replicas of every settled objective.

    Of an objective that is open again, as the grid was extended, they are those that are planned already.
    """
    return everything_with_states(store, spec)[0]


def everything_with_states(store: Store, spec: SweepSpec) -> tuple[list[Planned], dict[str, RunState]]:
    """The points of `everything`, and what became of each by its id."""
    planned = filled(store.root, searched(store.root, spec))
    known = states(store, [p.point for p in planned])
    extra: list[Planned] = []
    for group in by_objective(spec, planned):
        while all(known[p.point.id].status.is_settled for p in group):
            records = _records([p.point for p in group], known)
            if new := next_round(spec, group, records):
                known |= states(store, [p.point for p in new])
                group += new
                planned += new
            else:
                extra += replicas(spec, group, records)
                break
    extra += replicas_to_keep(store.root, spec, planned + extra)
    return planned + extra, known | states(store, [p.point for p in extra])


def _records(points: Sequence[Point], known: Mapping[str, RunState]) -> dict[str, RunRecord]:
    """The records of those points that have one, by their keys."""
    return {point.key: record for point in points if (record := known[point.id].record) is not None}


def next_round(spec: SweepSpec, group: Sequence[Planned], records: Mapping[str, RunRecord]) -> list[Planned]:
    """The points with which the search of an objective goes on; none if it is over.

    Args:
        spec: the sweep.
        group: the objective's search points so far, all of them settled (finished or failed).
        records: of the finished ones, by key.
    """
    points = [p.point for p in group]
    return [
        plan_point(spec, points[0].block, SEARCH, settings | seeds)
        for settings in next_settings(spec, points, records)
        for seeds in spec.seed_settings
    ]


def next_settings(
    spec: SweepSpec, points: Sequence[Point], records: Mapping[str, RunRecord]
) -> list[Settings]:
    """The settings of `next_round`, each once: with other rates beside the winner's other values.

    Where all have diverged, every combination of the other values gets another rate. Where all have failed,
    there is nothing to go on from.
    """
    if spec.search.mode != REFINE or not records:
        return []
    rate, best = spec.search.rate, winner(points, records)[:1]
    scores = {key: score(record) for key, record in records.items()}
    settings = []
    for name, members in grouped(points, lambda point: line(spec, point)).items():
        if not best or line(spec, best[0]) == name:
            tried = {
                value: mean_score([scores.get(point.key) for point in twins])
                for value, twins in grouped(members, lambda point: float(point.overrides[rate])).items()
            }
            optimizer = str(members[0].overrides.get("optimizer.name", FIELDS["optimizer.name"].default))
            settings += [members[0].overrides | {rate: v} for v in next_rates(optimizer, rate, tried)]
    return settings[: max(0, spec.search.trials - len({point.candidate for point in points}))]


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


@dataclass(frozen=True)
class Course:
    """How far an objective is.

    Attributes:
        search: its points of the grid or the search, as planned.
        replicas: those of its winner on fresh seeds, as planned.
        best: what a table would choose now, as `winner` returns it.
        settled: whether all points of the search are, so that the best has won.
        to_come: the points that follow and are not in the plan yet, each given by one with the same cost: the
            next round of the search and the replicas, also of a winner that is not known yet.
    """

    search: Sequence[Point]
    replicas: Sequence[Point]
    best: Sequence[Point]
    settled: bool
    to_come: Sequence[Point]


def courses(spec: SweepSpec, points: Sequence[Point], known: Mapping[str, RunState]) -> list[Course]:
    """How far each objective is. It makes no config, so it is quick, and does without the sweep's own parts.

    Args:
        spec: the sweep.
        points: its points as planned.
        known: their states, by their ids.
    """
    found = []
    for group in grouped(points, lambda point: objective(point, spec)).values():
        search = [point for point in group if point.stage == SEARCH]
        replicas = [point for point in group if point.stage != SEARCH]
        settled = all(known[point.id].status.is_settled for point in search)
        records = _records(search, known)
        best = winner(search, records)
        rounds = [
            replace(search[0], overrides=settings)
            for settings in (next_settings(spec, search, records) if settled else ())
            for _ in spec.seeds
        ]
        is_over = settled and not rounds
        planned = [p for p in replicas if not (is_over and best) or p.candidate == best[0].candidate]
        missing = 0 if is_over and not best else spec.fresh_seeds - len(planned)
        fresh = [replace(point, stage=REPLICATE) for point in (best or search)[:1] for _ in range(missing)]
        found.append(Course(search, replicas, best, is_over, [*rounds, *fresh]))
    return found


def winner(points: Sequence[Point], records: Mapping[str, RunRecord]) -> list[Point]:
    """The points of an objective's best candidate, one per seed; empty if no candidate has all its scores.

    Args:
        points: of the objective's search.
        records: of the finished ones, by key.
    """
    scores = {key: score(record) for key, record in records.items()}
    return best_runs(points, lambda point: point.candidate, lambda point: scores.get(point.key))
