"""From a sweep file to its points, and the objectives they compete for. Torch-free."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import RunConfig
from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.errors import UsageError
from harness.store import points as plans
from harness.store.points import SEARCH, Point
from sweeps.plan import slots
from sweeps.plan.grid_configs import GridConfigs
from sweeps.spec import given
from sweeps.spec.sweep import Block, Settings, SweepSpec

# The first of the fresh seeds. No search is likely to use it. Sweeps share it, so that rows can be paired.
FRESH_SEEDS = 1000


@dataclass(frozen=True)
class Planned:
    """A point and its resolved config. The config of an empty slot has defaults for the searched settings."""

    point: Point
    config: RunConfig


def configs_of(word: str, root: Path) -> Iterator[RunConfig]:
    """The configs of the points of all sweeps that a word of the command line names; allows their parts."""
    for spec in given.load_all([word], [], root):
        yield from (planned.config for planned in search_points(spec))


def search_points(spec: SweepSpec) -> list[Planned]:
    """The points of a grid in the order of the file, each key once per block; the empty slots of a search.

    Raises:
        UsageError: a point that no run can have, or no points at all.
    """
    if not spec.search.is_grid:
        return [Planned(point, config) for point, config in slots.points(spec)]
    points = spec.included((block, chosen) for block in spec.blocks for chosen in _grid(spec, block))
    configs = {block.name: GridConfigs((*block.space, "seed")) for block in spec.blocks}
    planned = [plan_point(spec, b.name, SEARCH, chosen, configs[b.name].resolve) for b, chosen in points]
    return list({(one.point.block, one.point.key): one for one in planned}.values())


def _grid(spec: SweepSpec, block: Block) -> Iterator[Settings]:
    axes = [values if isinstance(values, list) else values.points() for values in block.space.values()]
    for *values, seed in itertools.product(*axes, spec.seeds):
        yield spec.base | block.set | dict(zip(block.space, values, strict=True)) | {"seed": seed}


def plan_point(
    spec: SweepSpec,
    block: str,
    stage: str,
    settings: Settings,
    resolve: Callable[[Settings], RunConfig] = resolve_config,
) -> Planned:
    """One point with its resolved config and its key, each made once.

    Args:
        spec: the sweep.
        block: the name of the point's block.
        stage: `search` or `replicate`.
        settings: of its run.
        resolve: makes the config; equal to `resolve_config`, maybe faster.

    Raises:
        UsageError: no run can have the settings; one sentence with the sweep and the block.
    """
    try:
        config = resolve(settings)
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
    """The points, those of filled slots with key and settings."""
    return [replace(one, point=plans.filled(root, one.point)) for one in planned]


def objective(point: Point, spec: SweepSpec) -> tuple[str, ...]:
    """The objective of a point: its block and its values on the axes that are not tuned.

    The points of one objective compete: one of them wins.
    """
    block = block_of(spec, point)
    fixed = [axis for axis in block.space if not plans.is_tuned(axis)]
    return (point.block, *(f"{axis}={point.overrides.get(axis)}" for axis in fixed))


def by_objective(spec: SweepSpec, planned: Sequence[Planned]) -> list[list[Planned]]:
    """The points grouped by their objectives."""
    groups: dict[tuple[str, ...], list[Planned]] = {}
    for one in planned:
        groups.setdefault(objective(one.point, spec), []).append(one)
    return list(groups.values())


def replica_seeds(spec: SweepSpec, group: Sequence[Planned]) -> list[int]:
    """The fresh seeds on which the winner of an objective is run again.

    Args:
        spec: the sweep.
        group: the objective's search points.
    """
    # Both seeds change, so that the spread has both causes: initial weights and order of the data. The search
    # has used the data seeds of its own points, so these are not fresh.
    seen = {one.config.data_seed for one in group}
    first = max(FRESH_SEEDS, *(seed + 1 for seed in spec.seeds))
    fresh = (seed for seed in itertools.count(first) if seed not in seen)
    return list(itertools.islice(fresh, spec.fresh_seeds))
