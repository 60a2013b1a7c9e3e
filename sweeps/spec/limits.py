"""The limits of any sweep: its size, its seeds, its database. Torch-free."""

from __future__ import annotations

import math

from harness.config import limits
from harness.errors import UsageError
from harness.store.points import is_tuned
from sweeps.spec import database
from sweeps.spec.sweep import Block, SweepSpec

MOST_POINTS = 100_000  # each is a line of the plan and a folder
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
        limits.check_seed("seeds", seed + spec.fresh_seeds)  # replicas get the seeds above


def _points(spec: SweepSpec, block: Block) -> int:
    """The number of points of a block: combinations in a grid, trials of all its studies in a search."""
    each = len(spec.seeds) if spec.search.is_grid else spec.search.trials
    listed = {name: values for name, values in block.space.items() if isinstance(values, list)}
    axes = [len(values) for name, values in listed.items() if spec.search.is_grid or not is_tuned(name)]
    return each * math.prod(axes)


def check_storage(spec: SweepSpec) -> None:
    """Raise UsageError if no database driver takes the URL of a search. No connection is made."""
    if not spec.search.storage:
        return
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    url = database.resolved(spec.search.storage)
    database.check_kind(url, spec.search.storage)
    scheme = url.partition(":")[0]
    where = f"Sweep '{spec.name}': search.storage begins with '{scheme}'"
    try:
        make_url(url).get_dialect().import_dbapi()
    except (NoSuchModuleError, ArgumentError, ValueError):
        raise UsageError(f"{where}, which is no kind of database; use postgresql://host/name.") from None
    except ImportError as error:
        raise UsageError(
            f"{where}, whose driver is missing ({error}); PostgreSQL's: `pip install 'htbench[postgres]'`."
        ) from None
