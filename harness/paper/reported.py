"""The published numbers, one `Reported` per printed number, in the order of the paper. Torch-free.

`reported_results.csv` beside this file was read off the tables of "HTMuon: Improving Muon via Heavy-Tailed
Spectral Correction". `hyperparameters.csv`, `models.csv`, `protocol.csv` and `figures.csv` are further facts.
"""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from htbench.harness.errors import UsageError, nearest

Row = dict[str, str]  # of a CSV file


@dataclass(frozen=True)
class Setting:
    """What trains, less its learning rate. None: the optimizer has no such hyperparameter.

    Attributes:
        optimizer: its name in the zoo.
        p, rank_exponent, interval: hyperparameters that the tables vary.
        replica: the word of a deliberate rerun; empty for the first run.
    """

    optimizer: str
    p: float | None = None
    rank_exponent: float | None = None
    interval: int | None = None
    replica: str = ""

    @property
    def hyper(self) -> dict[str, float | int]:
        """The hyperparameters that are given, by their names in the zoo."""
        values = {"p": self.p, "rank_exponent": self.rank_exponent, "interval": self.interval}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Reported:
    """One printed number.

    Attributes:
        table: the name of its table.
        dataset, model: the workload.
        row: the label of its row.
        setting: what was trained.
        lr: the learning rate, as far as the paper states it. Of most tables it is the best one of a grid.
        hardware: of a timing; empty for all others.
        metric: `perplexity`, `accuracy` (%), `seconds_per_step`, `hours`, `hours_to_perplexity_X`, or one of
            the seven tasks of common sense and their `average` (%).
        printed: the number as it is printed.
    """

    table: str
    dataset: str
    model: str
    row: str
    setting: Setting
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


def rows(name: str) -> list[Row]:
    """The rows of `name.csv` beside this file."""
    with Path(__file__).with_name(f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@functools.cache
def everything() -> tuple[Reported, ...]:
    """All published numbers."""
    return tuple(map(_parse_row, rows("reported_results")))


def tables() -> list[str]:
    """The names of the tables, in the order of the file."""
    return list(dict.fromkeys(line.table for line in everything()))


def of_table(name: str) -> list[Reported]:
    """The numbers of a table.

    Raises:
        UsageError: an unknown table.
    """
    if name not in tables():
        raise UsageError(f"The paper has no table '{name}'; {nearest(name, tables())}")
    return [line for line in everything() if line.table == name]


def _parse_row(row: Row) -> Reported:
    interval = _parse_number(row["interval"])
    setting = Setting(
        row["optimizer"],
        _parse_number(row["p"]),
        _parse_number(row["rank_exponent"]),
        None if interval is None else int(interval),
        row["replica"],
    )
    words = (row["table"], row["dataset"], row["model"], row["row"])
    return Reported(*words, setting, _parse_number(row["lr"]), row["hardware"], row["metric"], row["printed"])


def _parse_number(text: str) -> float | None:
    return float(text) if text else None
