"""A sweep in plain values, as its file describes it. Torch-free."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from htbench.harness.config import Value, limits, parts
from htbench.harness.config.programs import is_program
from htbench.harness.errors import UsageError
from htbench.harness.store.points import is_tuned
from htbench.sweeps.spec.keys import key, kind, mapping, whole
from htbench.sweeps.spec.resources import Resources
from htbench.sweeps.spec.search import MOST_POINTS, Range, Search

Axes = dict[str, list[Value] | Range]
Settings = dict[str, Value]

_MOST_REPLICAS = 1000
_AXES = kind(Mapping, "a mapping from settings to values")


@dataclass(frozen=True)
class Block:
    """A part of the sweep, usually one per optimizer. Only searches with slots have ranges, others lists."""

    name: str = key(None, "", "the block's word in plans and studies; default: `optimizer.name`")
    row: str = key(
        None,
        "",
        "the row of its winner in tables, beside rows of the same optimizer; default: that of the optimizer, "
        "for which its blocks compete",
    )
    set: Settings = key(mapping, None, "settings of every run of this block, over those of `base`")
    space: Axes = key(_AXES, None, "axes of this block, over the common ones")
    resources: Resources = key(mapping, Resources(), "of this block's jobs, over those of the sweep")

    @property
    def listed(self) -> dict[str, list[Value]]:
        """The axes that have a list of values."""
        return {name: values for name, values in self.space.items() if isinstance(values, list)}


def whole_seeds(name: str, value: Any) -> list[int]:
    """The check of a list of seeds."""
    if not isinstance(value, list) or not value or not all(type(seed) is int and seed >= 0 for seed in value):
        raise UsageError(f"{name} must be a list of whole numbers from 0, such as [0, 1, 2], not {value!r}.")
    return value


def stack_size(name: str, value: Any) -> int | str:
    """The check of the most runs of a stack."""
    return "auto" if value == "auto" else int(whole(1)(f"{name}, if it is not auto,", value))


def compiling(name: str, value: Any) -> bool | str:
    """The check of whether runs are compiled."""
    if isinstance(value, bool):
        return value
    if value == "auto":
        return "auto"
    raise UsageError(f"{name} must be true, false or auto, not {value!r}.")


@dataclass(frozen=True)
class Replicate:
    """The section `replicate`: on how many fresh seeds each objective's winner is run again."""

    seeds: int = key(whole(0, _MOST_REPLICAS), 0, "how many")


@dataclass(frozen=True)
class SweepSpec:
    """A whole sweep file. What is common to all blocks is in each of them, too.

    Attributes:
        text: the file as written, with the words of the command line in it.
    """

    name: str = key(
        None, "", "the sweep's folder in the store and its word in tables; default: the file's name"
    )
    base: Settings = key(mapping, None, "settings of every run")
    seeds: list[int] = key(
        whole_seeds,
        None,
        "list of seeds of the initial weights; every setting runs on each (default: `base.seed`)",
    )
    blocks: list[Block] = key(
        kind(list, "a list of blocks"),
        None,
        "list of parts of the grid, usually one per optimizer; default: one block",
    )
    space: Axes = key(_AXES, None, "axes of every block, see below")
    exclude: Sequence[Settings] = key(
        kind(list, "a list of mappings, such as [{optimizer.lr: 1}]"),
        (),
        "list of mappings; a run that agrees with all settings of one of them is left out",
    )
    search: Search = key(mapping, Search(), "how settings are found, see below; default: `{mode: grid}`")
    replicate: Replicate = key(
        mapping,
        Replicate(),
        "`{seeds: 3}`: run each winner again on so many fresh seeds; tables report those. The first is 1000, "
        "or above `seeds` if that is more: sweeps share them, no search should use them",
    )
    resources: Resources = key(mapping, Resources(), "what a job may use on a SLURM cluster, see below")
    data_seeds: list[int] = key(
        whole_seeds,
        (),
        "list of as many seeds of the order of the training data, one beside each of `seeds`; default: "
        "`base.data_seed` beside all, so that all runs of a search see one order",
    )
    stack: int | str = key(
        stack_size,
        "auto",
        "so many runs of a small model that differ in seeds, rates and weight decay only are trained as one "
        "by `sweep run`: a number, or `auto` (up to 16, where it is quicker); 1: none",
    )
    compile: bool | str = key(
        compiling,
        False,
        "whether runs are compiled that do not say so themselves: true, false, or `auto`, where all updates "
        "of the file make up for it: 200,000 of each shape, 1,500 of each run (last digits differ)",
    )
    program: Any = key(mapping, None, "any training program in the place of ours, see below")
    text: str = ""

    @property
    def seed_settings(self) -> list[Settings]:
        """The settings of the seeds on which every setting of the search runs."""
        if not self.data_seeds:
            return [{"seed": seed} for seed in self.seeds]
        pairs = zip(self.seeds, self.data_seeds, strict=True)
        return [{"seed": seed, "data_seed": data_seed} for seed, data_seed in pairs]

    @property
    def fresh_seeds(self) -> int:
        """On how many fresh seeds each objective's winner is run again; 0: on none."""
        return self.replicate.seeds

    @property
    def is_program(self) -> bool:
        """Whether a program that is not ours makes its runs."""
        return is_program(self.base)

    @property
    def shown_rate(self) -> str:
        """The rate that `refine` refines, as the file calls it."""
        return self.search.rate.removeprefix("optimizer.") if self.is_program else self.search.rate

    def parts(self) -> set[str]:
        """The optimizers, models and tasks that it names; of a program they are words."""
        if self.is_program:
            return set()
        rows = [self.base, *(row for block in self.blocks for row in (block.set, block.space))]
        return {name for row in rows for name in parts.named(row)}

    def check_size(self) -> None:
        """Raise UsageError if there are more points than a store can hold, or larger seeds than there are."""
        points = sum(map(self.runs_of, self.blocks))
        if points > MOST_POINTS:
            raise UsageError(f"The sweep has {points} runs; there can be {MOST_POINTS} at most.")
        if self.data_seeds and len(self.data_seeds) != len(self.seeds):
            raise UsageError(
                f"'data_seeds' has {len(self.data_seeds)} seeds beside {len(self.seeds)} in 'seeds'; each of "
                f"those needs one."
            )
        for seed in (*self.seeds, *self.data_seeds):
            limits.check_seed("seeds", seed + self.fresh_seeds)  # replicas get the seeds above

    def runs_of(self, block: Block) -> int:
        """The points of a block: combinations of a grid, or trials of all objectives of a search."""
        trials = self.search.trials
        axes = [len(values) for name, values in block.listed.items() if trials is None or not is_tuned(name)]
        return math.prod(axes) * (trials or 1) * len(self.seeds)

    def included(self, points: Iterable[tuple[Block, Settings]]) -> list[tuple[Block, Settings]]:
        """The points that no row of `exclude` matches.

        Args:
            points: each with its block.

        Raises:
            UsageError: a row matches none of them, or nothing is left.
        """
        included, matched = [], set[int]()
        for block, settings in points:
            rows = [n for n, row in enumerate(self.exclude) if row.items() <= settings.items()]
            matched.update(rows)
            included += [] if rows else [(block, settings)]
        for number, row in enumerate(self.exclude):
            if number not in matched:
                raise UsageError(f"Sweep '{self.name}': 'exclude' has {row}, which no run has.")
        if not included:
            raise UsageError(f"The sweep '{self.name}' has no runs: 'exclude' leaves none.")
        return included
