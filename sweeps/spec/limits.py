"""What a sweep may ask for: its size, seeds, database and machines, looked at before anything starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import limits
from harness.errors import UsageError
from harness.store.layout import cache_folder
from harness.store.points import is_tuned
from sweeps.spec.resources import Resources

if TYPE_CHECKING:
    from sweeps.plan.planned import Planned
    from sweeps.spec.sweep_file import Block, SweepSpec

MOST_POINTS = 100_000  # points of a grid, trials of a search: each is a line of the plan and a folder
MOST_REPLICAS = 1000


def check_size(spec: SweepSpec) -> None:
    """Raise UsageError if a sweep has more points, trials or seeds than a store can hold."""
    for name, count, most in (
        ("search.trials", spec.search.trials, MOST_POINTS),
        ("replicate.seeds", spec.fresh_seeds, MOST_REPLICAS),
    ):
        if count > most:
            raise UsageError(f"{name}={count} is more than {most}, the most there can be.")
    points = sum(_points(spec, block) for block in spec.blocks)
    if points > MOST_POINTS:
        raise UsageError(f"The sweep has {points} points; there can be {MOST_POINTS} at most.")
    limits.check_seed("search.seed", spec.search.seed)
    for seed in spec.seeds:
        limits.check_seed("seeds", seed + spec.fresh_seeds)  # replicas get those that follow


def _points(spec: SweepSpec, block: Block) -> int:
    """Of a grid all combinations; of a search its trials, for each combination of what is not searched."""
    each = len(spec.seeds) if spec.search.is_grid else spec.search.trials
    listed = {name: values for name, values in block.space.items() if isinstance(values, list)}
    axes = [len(values) for name, values in listed.items() if spec.search.is_grid or not is_tuned(name)]
    return each * math.prod(axes)


def check_start(spec: SweepSpec, planned: Sequence[Planned], root: Path, *, action: str) -> None:
    """Refuse what can't be run, and warn of what would be slow, before anything starts.

    Args:
        spec: the sweep.
        planned: its points.
        root: the store.
        action: `run` is for this machine, `submit` for what `resources` ask for, and `plan` for the latter if
            the file has any.

    Raises:
        UsageError: one sentence.
    """
    from sweeps.plan.planned import block_of

    check_storage(spec)
    # Points of a block differ in what is searched; a thousand of them are checked like one.
    kinds = {}
    for one in planned:
        c, wanted = one.config, block_of(spec, one.point).resources
        told = (c.task, c.seq_len, c.batch_size, c.data_fingerprint, c.device, c.processes, c.threads)
        kinds[told, wanted] = c
    warnings: list[str] = []
    for (_, wanted), config in kinds.items():
        try:
            limits.check_data(config, cache_folder(root))
            here = action == "run" or (action == "plan" and wanted == Resources())
            warnings += (
                limits.check_here(config) if here else _check_job(wanted, config.threads, config.device)
            )
        except UsageError as error:
            raise UsageError(f"Sweep '{spec.name}': {error}") from None
    limits.warn(f"{spec.name}: {sentence}" for sentence in warnings)


def _check_job(wanted: Resources, threads: int, device: str) -> list[str]:
    """Warnings on a run in a job of its own. Raises UsageError if it can't be made there."""
    if device == "cuda" and not wanted.gpus_per_node and not any("gpu" in line for line in wanted.setup):
        raise UsageError("device=cuda, but its resources ask for no GPU; add gpus_per_node: 1 to them.")
    return limits.check_cores(f"threads={threads}", threads, wanted.cpus_per_task, "cpus_per_task asks for")


def check_storage(spec: SweepSpec) -> None:
    """Raise UsageError if no database driver here takes the URL of a search; nobody is connected to."""
    if not spec.search.storage:
        return
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    scheme = spec.search.storage.partition(":")[0]
    where = f"Sweep '{spec.name}': search.storage begins with '{scheme}'"
    try:
        make_url(spec.search.url).get_dialect().import_dbapi()
    except (NoSuchModuleError, ArgumentError, ValueError):
        raise UsageError(f"{where}, which is no kind of database; use postgresql://host/name.") from None
    except ImportError as error:
        raise UsageError(
            f"{where}, whose driver is missing ({error}); PostgreSQL's: `pip install 'htbench[postgres]'`."
        ) from None
