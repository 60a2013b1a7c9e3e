"""From a sweep file to points, and from points to what is finished, live or still to run. Torch-free."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import RunConfig, Value
from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.errors import UsageError
from harness.store import Kind, RunState, Store, score
from harness.store import points as plans
from harness.store.points import REPLICATE, SEARCH, SPEC, Point
from harness.store.record import RunRecord
from harness.system import atomic
from harness.system.folders import make_folder
from sweeps.plan import slots
from sweeps.spec.sweep_file import Block, Settings, SweepSpec

FRESH_SEEDS = (
    1000  # the first: no search is likely to use it, and sweeps share it, so that rows can be paired
)


@dataclass(frozen=True)
class Planned:
    """A point together with its resolved config; that of an empty slot has defaults for what is searched."""

    point: Point
    config: RunConfig


def search_points(spec: SweepSpec) -> list[Planned]:
    """All points of the grid in the order of the file, each key once per block; in a search its empty slots.

    Raises:
        UsageError: a point that no run can have, or no points at all.
    """
    if not spec.search.is_grid:
        return [Planned(point, config) for point, config in slots.points(spec)]
    points = spec.included((block, chosen) for block in spec.blocks for chosen in _grid(spec, block))
    planned = [_planned(spec, block.name, SEARCH, chosen) for block, chosen in points]
    return list({(one.point.block, one.point.key): one for one in planned}.values())


def _grid(spec: SweepSpec, block: Block) -> Iterator[Settings]:
    axes = [values if isinstance(values, list) else values.points() for values in block.space.values()]
    for *values, seed in itertools.product(*axes, spec.seeds):
        yield spec.base | block.set | dict(zip(block.space, values, strict=True)) | {"seed": seed}


def _planned(spec: SweepSpec, block: str, stage: str, settings: dict[str, Value]) -> Planned:
    try:
        config = resolve_config(settings)
        _block_called(spec, block).resources.check(config.processes)
    except UsageError as error:
        raise UsageError(f"Sweep '{spec.name}', block '{block}': {error}") from None
    return Planned(Point(spec.name, block, stage, run_key(config), settings), config)


def block_of(spec: SweepSpec, point: Point) -> Block:
    """The block of the file that a point comes from."""
    return _block_called(spec, point.block)


def _block_called(spec: SweepSpec, name: str) -> Block:
    return next(block for block in spec.blocks if block.name == name)


def filled(root: Path, planned: Sequence[Planned]) -> list[Planned]:
    """The points with key and settings of those slots that are filled by now."""
    return [replace(one, point=plans.filled(root, one.point)) for one in planned]


def state(store: Store, point: Point) -> RunState:
    """What became of a point, as its study sees it; an empty slot waits."""
    return store.state(point.key, point.study) if point.key else RunState(Kind.WAITING)


def ended(store: Store, points: Sequence[Point]) -> dict[str, RunRecord]:
    """The records of those points, by their ids, that have come to an end for their study; from the index."""
    records = store.records({point.key for point in points if point.key})
    return {p.id: records[p.key] for p in points if p.key in records and records[p.key].ends(p.study)}


def states(store: Store, points: Sequence[Point]) -> dict[str, RunState]:
    """The states of many points by their ids, from the index as far as possible."""
    records = ended(store, points)
    return {
        p.id: RunState(Kind.FINISHED, record=records[p.id]) if p.id in records else state(store, p)
        for p in points
    }


def settled(state: RunState) -> bool:
    """Whether nothing is left to do for a run, unless somebody asks for a failed one again."""
    return state.kind in (Kind.FINISHED, Kind.FAILED)


def word(state: RunState) -> str:
    """What became of a run in one word."""
    return state.record.status if state.record is not None else state.kind.value


def everything(store: Store, spec: SweepSpec) -> list[Planned]:
    """The grid or the slots, and the replicas of every objective all of whose points are settled."""
    planned = filled(store.root, search_points(spec))
    found = states(store, [one.point for one in planned])
    records = {one.point.key: record for one in planned if (record := found[one.point.id].record) is not None}
    extra: list[Planned] = []
    for group in by_objective(spec, planned):
        if all(settled(found[one.point.id]) for one in group):
            extra += replicas(spec, group, records)
    return planned + extra


def objective(point: Point, spec: SweepSpec) -> tuple[str, ...]:
    """What a point competes under: its block and its values on axes not searched; all rivals share it."""
    block = block_of(spec, point)
    fixed = [axis for axis in block.space if not plans.is_tuned(axis)]
    return (point.block, *(f"{axis}={point.overrides[axis]}" for axis in fixed))


def by_objective(spec: SweepSpec, planned: Sequence[Planned]) -> list[list[Planned]]:
    """The points grouped by what they compete under."""
    groups: dict[tuple[str, ...], list[Planned]] = {}
    for one in planned:
        groups.setdefault(objective(one.point, spec), []).append(one)
    return list(groups.values())


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
    return [_planned(spec, best[0].block, REPLICATE, chosen) for chosen in settings]


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


def write_plan(root: Path, spec: SweepSpec, planned: Sequence[Planned]) -> None:
    """Put the sweep's file and points into the store: this is what tables and status read.

    Slots are written empty; what they hold is in their own files.
    """
    folder = plans.sweep_folder(root, spec.name)
    make_folder(folder)
    with atomic.locked(folder / ".lock"):
        atomic.remove_temporaries(folder)
        copy = folder / SPEC
        if not copy.exists() or copy.read_bytes() != spec.text.encode():
            atomic.write_text(copy, spec.text)
        if not spec.search.is_grid:
            slots.write_studies(root, spec)
        plans.write_points(root, spec.name, [one.point for one in planned])
