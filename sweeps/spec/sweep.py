"""A sweep in plain values, as its file describes it. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.config import Value, parts
from harness.errors import UsageError
from sweeps.spec.resources import Resources
from sweeps.spec.search import Range, Search

Axes = dict[str, list[Value] | Range]
Settings = dict[str, Value]


@dataclass(frozen=True)
class Block:
    """A part of the sweep, usually one per optimizer: fixed settings in `set`, axes in `space`.

    Only a search has ranges: those of a grid are lists already. `resources` are those of the sweep,
    overridden by the block's own.
    """

    name: str
    set: dict[str, Value]
    space: Axes
    resources: Resources = Resources()


@dataclass(frozen=True)
class SweepSpec:
    """A whole sweep file.

    Attributes:
        name: names its folder in the store.
        base: settings of every point.
        seeds: every point is run on each.
        blocks: the points of all of them are the sweep.
        exclude: a point that matches all settings of one of these is left out.
        search: how points are found.
        fresh_seeds: number of seeds on which each objective's winner is run again; 0 for none.
        text: the file as written, with the words of the command line in it.
    """

    name: str
    base: dict[str, Value]
    seeds: list[int]
    blocks: list[Block]
    exclude: list[dict[str, Value]] = field(default_factory=list)
    search: Search = field(default_factory=Search)
    fresh_seeds: int = 0
    text: str = ""

    def parts(self) -> set[str]:
        """The optimizers, models and tasks that it names."""
        rows = [self.base, *(row for block in self.blocks for row in (block.set, block.space))]
        return {name for row in rows for name in parts.named(row)}

    def included(self, points: Iterable[tuple[Block, Settings]]) -> list[tuple[Block, Settings]]:
        """The points that no row of `exclude` matches.

        Args:
            points: each with its block.

        Raises:
            UsageError: a row matches none of them, or nothing is left.
        """
        found, matched = [], set[int]()
        for block, settings in points:
            rows = [n for n, row in enumerate(self.exclude) if row.items() <= settings.items()]
            matched.update(rows)
            found += [] if rows else [(block, settings)]
        for number, row in enumerate(self.exclude):
            if number not in matched:
                raise UsageError(f"Sweep '{self.name}': 'exclude' has {row}, which no point has.")
        if not found:
            raise UsageError(f"The sweep '{self.name}' has no points: 'exclude' leaves none.")
        return found
