"""From a sweep file to its points, the objectives they compete for, and their states. Torch-free."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from htbench import optimizers
from htbench.harness.choice.winner import grouped
from htbench.harness.config import RunConfig
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import param_of, resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.store import points as plans
from htbench.harness.store.points import SEARCH, SEED_FIELDS, Point, is_tuned
from htbench.sweeps.plan import slots
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import Block, Settings, SweepSpec

DAMAGED = Note("run_damaged")  # neither trained nor counted before a person has decided
# The first of the fresh seeds. No search is likely to use it. Sweeps share it, so that rows can be paired.
FRESH_SEEDS = 1000


@dataclass(frozen=True)
class Planned:
    """A point and its resolved config. The config of an empty slot has defaults for the searched settings."""

    point: Point
    config: RunConfig


def search_points(spec: SweepSpec) -> list[Planned]:
    """The points that a file lists, each key once per block: a grid, a first round, or empty slots.

    Raises:
        UsageError: a point that no run can have, or no points at all.
    """
    if spec.search.has_slots:
        return [Planned(point, config) for point, config in slots.points(spec)]
    for block in spec.blocks:
        others = optimizers.ZOO.keys() - {block.set.get("optimizer.name")}
        if not spec.is_program and block.row in others:
            raise UsageError(f"The row of block '{block.name}' can't be '{block.row}', another optimizer.")
    points = spec.included((block, settings) for block in spec.blocks for settings in _grid(spec, block))
    planned = [plan_point(spec, block.name, SEARCH, settings) for block, settings in points]
    distinct = list({(p.point.block, p.point.key): p for p in planned}.values())
    if spec.search.mode != REFINE:
        return distinct
    rate = spec.search.rate
    for name, members in grouped(distinct, lambda p: p.point.block).items():
        where = f"Sweep '{spec.name}', block '{name}': {rate}"
        if any(param_of(p.config.optimizer.name, rate).type is int for p in members):
            raise UsageError(f"{where} takes whole numbers only, which can't be refined; use mode 'grid'.")
        if len({p.point.overrides[rate] for p in members}) < 2:
            raise UsageError(f"{where} can't be refined: all of its values mean the same run.")
    return distinct


def _grid(spec: SweepSpec, block: Block) -> Iterator[Settings]:
    for *values, seeds in itertools.product(*block.listed.values(), spec.seed_settings):
        yield spec.base | block.set | dict(zip(block.space, values, strict=True)) | seeds


def plan_point(spec: SweepSpec, block: str, stage: str, settings: Settings) -> Planned:
    """One point with its resolved config and its key, each made once.

    Args:
        spec: the sweep.
        block: the name of the point's block.
        stage: `search` or `replicate`.
        settings: of its run.

    Raises:
        UsageError: no run can have the settings; one sentence with the sweep and the block.
    """
    try:
        config = resolve_config(settings)
        own = next(one for one in spec.blocks if one.name == block)
        if not config.program:  # which starts as many processes as it likes
            own.resources.check(config.processes)
    except UsageError as error:
        raise UsageError(f"Sweep '{spec.name}', block '{block}': {error}") from None
    goes_on = stage == SEARCH and spec.search.mode == REFINE
    allowed, refines = (spec.search.trials, spec.search.rate) if goes_on else (0, "")
    key = run_key(config)
    point = Point(spec.name, block, stage, key, settings, allowed=allowed, refines=refines, row=own.row)
    return Planned(point, config)


def block_of(spec: SweepSpec, point: Point) -> Block:
    """The block of the file that a point comes from."""
    return next(block for block in spec.blocks if block.name == point.block)


def filled(root: Path, planned: Sequence[Planned]) -> list[Planned]:
    """The points, those of filled slots with key and settings."""
    return [replace(p, point=plans.filled(root, p.point)) for p in planned]


def objective(point: Point, spec: SweepSpec) -> tuple[str, ...]:
    """The objective of a point: its block and its values on the axes that are not tuned.

    The points of one objective compete: one of them wins.
    """
    fixed = [axis for axis in block_of(spec, point).space if not is_tuned(axis)]
    return (point.block, *(f"{axis}={point.overrides.get(axis)}" for axis in fixed))


def line(spec: SweepSpec, point: Point) -> tuple[Any, ...]:
    """What points share that differ in nothing but the rate that is refined, and in their seeds."""
    return point.block, *(pair for pair in point.candidate if pair[0] != spec.search.rate)


def by_objective(spec: SweepSpec, planned: Sequence[Planned]) -> list[list[Planned]]:
    """The points grouped by their objectives."""
    return list(grouped(planned, lambda p: objective(p.point, spec)).values())


def replica_seeds(spec: SweepSpec, group: Sequence[Planned]) -> list[int]:
    """The fresh seeds on which the winner of an objective is run again.

    Args:
        spec: the sweep.
        group: the objective's search points.
    """
    # Both seeds change, so that the spread has both causes: initial weights and order of the data. The search
    # has used the data seeds of its own points, so these are not fresh.
    seen = {p.config.data_seed for p in group}
    first = max(FRESH_SEEDS, *(seed + 1 for seed in spec.seeds))
    fresh = (seed for seed in itertools.count(first) if seed not in seen)
    return list(itertools.islice(fresh, spec.fresh_seeds))


# --- as their studies see them ---


def state(store: Store, point: Point) -> RunState:
    """The state of a point, as its study sees it. An empty slot is waiting."""
    return store.state(point.key, point.study) if point.key else RunState(Status.WAITING)


def states(store: Store, points: Sequence[Point]) -> dict[str, RunState]:
    """The states of many points by their ids, from the index as far as possible."""
    records, known = store.records({p.key for p in points if p.key}), dict[str, RunState]()
    for p in points:
        record = records.get(p.key)
        if record is None or not record.ends(p.study):
            known[p.id] = state(store, p)
        elif record.digest:  # nothing follows on its figures
            known[p.id] = RunState(Status.DAMAGED, record.attempts)
        else:
            known[p.id] = RunState(record.status, record=record)
    return known


def note_damaged(known: Mapping[str, RunState], **fields: str) -> list[Note]:
    """The damaged runs in one sentence, as `sweep run` ends with it; none without any."""
    keys = [key for key, state in known.items() if state.status is Status.DAMAGED]
    return [Note("runs_ended", first=keys[0], more=len(keys) - 1, why=DAMAGED, **fields)] if keys else []


def describe(point: Point) -> str:
    """A point in one line: sweep, block, slot, and the settings and seeds in which points differ."""
    return f"{point.sweep} {point.block} {settings_of(point)}".rstrip()


def settings_of(point: Point) -> str:
    """Its slot, and the settings and seeds in which the points of its block differ."""
    tuned = [k for k in point.overrides if k.startswith("optimizer.") and k != "optimizer.name"]
    seeds = [k for k in SEED_FIELDS if k in point.overrides]
    values = [(k.removeprefix("optimizer."), point.overrides[k]) for k in tuned + seeds]
    # Digits as in the tables; the draws of a search have sixteen.
    words = " ".join(f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in values)
    return (f"#{point.slot.rpartition('/')[2]} " if point.slot else "") + words
