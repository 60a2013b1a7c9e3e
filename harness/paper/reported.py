"""The published numbers, one `Reported` per printed number, in the order of the paper. Torch-free.

`reported_results.csv` beside this file was read off the tables of "HTMuon: Improving Muon via Heavy-Tailed
Spectral Correction". `hyperparameters.csv`, `models.csv`, `protocol.csv` and `figures.csv` are further facts.
"""

import csv
import functools
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from htbench.harness.errors import UsageError, nearest
from htbench.harness.paper import scales

Row = dict[str, str]  # of a CSV file
_Place = TypeVar("_Place", bound="Place")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What trains where, less its learning rate: what tells the runs of a published number from all others.

    Attributes:
        dataset, model: the workload as the paper names it.
        optimizer: its name in the zoo.
        p, rank_exponent, interval: hyperparameters that the tables vary. None: the optimizer has no such one.
        replica: the word of a deliberate rerun; empty for the first run.
        scale: at which it is trained; `workload` is its workload there.
    """

    dataset: str
    model: str
    optimizer: str
    p: float | None = None
    rank_exponent: float | None = None
    interval: int | None = None
    replica: str = ""
    scale: str = scales.SCALES[0]

    @property
    def workload(self) -> scales.Workload:
        """The task and the model that stand for the published ones at its scale."""
        return scales.workload(self.scale, self.dataset, self.model)

    @property
    def has_twin(self) -> bool:
        """Whether anything stands for its workload at its scale."""
        return (self.dataset, self.model) in scales.twins(self.scale)

    @property
    def hyper(self) -> dict[str, float | int]:
        """The hyperparameters that are given, by their names in the zoo."""
        values = {"p": self.p, "rank_exponent": self.rank_exponent, "interval": self.interval}
        return {name: value for name, value in values.items() if value is not None}

    def at(self: _Place, scale: str) -> _Place:
        """What stands for it at a scale.

        Only the paper's own scale repeats runs deliberately (on other GPUs, or to look again at a doubtful
        cell). The ladder keeps its ablations of HTMuon apart, so that they do not compete in its endpoint.
        """
        varied = self.optimizer == "htmuon" and (self.p, self.interval) != (0.125, 1)
        word = "ablation" if scale == "ladder" and varied else ""
        return self if scale == self.scale else replace(self, scale=scale, replica=word)


@dataclass(frozen=True, kw_only=True)
class Reported(Place):
    """One printed number: a row of the CSV file.

    Attributes:
        table: the name of its table.
        row: the label of its row.
        lr: the learning rate, as far as the paper states it. Of most tables it is the best one of a grid.
        hardware: of a timing; empty for all others.
        metric: `perplexity`, `accuracy` (%), `seconds_per_step`, `hours`, `hours_to_perplexity_X`, or one of
            the seven tasks of common sense and their `average` (%).
        printed: the number as it is printed.
    """

    table: str
    row: str
    lr: float | None
    hardware: str
    metric: str
    printed: str

    @property
    def value(self) -> float:
        """The number."""
        return float(self.printed)

    @property
    def digits(self) -> int:
        """Its decimals."""
        return len(self.printed.partition(".")[2])

    @property
    def place(self) -> Place:
        """Where its runs are."""
        return Place(**{field.name: getattr(self, field.name) for field in fields(Place)})


def rows(name: str) -> list[Row]:
    """The rows of `name.csv` beside this file."""
    with Path(__file__).with_name(f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_numbers(row: Row) -> dict[str, Any]:
    """A row with the numbers of a place as such; None where a cell is empty."""
    kinds = {"lr": float, "p": float, "rank_exponent": float, "interval": int}
    return row | {name: kinds[name](row[name]) if row[name] else None for name in kinds.keys() & row.keys()}


@functools.cache
def everything() -> tuple[Reported, ...]:
    """All published numbers."""
    return tuple(Reported(**read_numbers(row)) for row in rows("reported_results"))


def tables() -> list[str]:
    """The names of the tables, in the order of the file."""
    return list(dict.fromkeys(line.table for line in everything()))


def of_table(name: str, scale: str = scales.SCALES[0]) -> list[Reported]:
    """The numbers of a table, at a scale.

    Raises:
        UsageError: an unknown table.
    """
    if name not in tables():
        raise UsageError(f"The paper has no table '{name}'; {nearest(name, tables())}")
    return [line.at(scale) for line in everything() if line.table == name]
