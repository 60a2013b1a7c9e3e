"""Published results and public runs of the benchmark, as they were read off its log files.

The three CSV files beside this one hold facts of KellerJordan/modded-nanogpt (MIT), folder
`records/track_3_optimization`, state of 2026-08-01: GPT-2 with 124M parameters on FineWeb. Data, batch and
architecture are the same in every run; only the optimizer differs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

PLACE = Path(__file__).parent
TOP = "(top)"  # the folder of logs that lie in none

Row = dict[str, str]


@dataclass(frozen=True)
class Published:
    """One line of the benchmark's own table.

    Attributes:
        number: its place in that table.
        steps: at which its mean loss is below 3.28.
        loss: mean validation loss at this step in nats per token, as printed.
        n: number of runs behind it.
        date: year/month/day.
        folder: of its logs; `TOP` if they lie in none.
        log: the name of one of them without its suffix. Some lines name the README instead.
    """

    number: int
    steps: int
    loss: Decimal
    n: int
    date: str
    folder: str
    log: str


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        folder, log: of its log file.
        total_steps: for which its learning rate was planned.
        gpu: its name; empty if the log does not say it.
        losses: validation loss by step. Decimals: a mean is rounded as on paper.
    """

    folder: str
    log: str
    total_steps: int
    gpu: str
    losses: Mapping[int, Decimal] = field(hash=False)


def published(place: Path = PLACE) -> list[Published]:
    """The benchmark's table in its order.

    Args:
        place: a folder with the three CSV files.
    """
    return [_published(row) for row in _rows(place / "history.csv")]


def _published(row: Row) -> Published:
    folder, _, file = row["log"].rpartition("/")
    log = file.rpartition(".")[0]
    numbers = int(row["number"]), int(row["steps_to_target"]), Decimal(row["mean_loss"]), int(row["n"])
    return Published(*numbers, row["date"], folder or TOP, log)


def runs(place: Path = PLACE) -> list[Run]:
    """All public runs in the order of the logs. A log holds one run or several, one after the other."""
    gpus = {(row["result"], row["run"]): row["gpu"] for row in _rows(place / "runs.csv")}
    logs: dict[tuple[str, str], list[Row]] = {}
    for row in _rows(place / "val_loss.csv"):
        logs.setdefault((row["result"], row["run"]), []).append(row)
    return [
        Run(*name, int(rows[0]["total_steps"]), gpus.get(name, ""), losses)
        for name, rows in logs.items()
        for losses in _split(rows)
    ]


def _split(rows: Iterable[Row]) -> list[dict[int, Decimal]]:
    """The losses of each run in a log: the next run begins where the log returns to its first step.

    Some logs repeat their last evaluations. Of a step that occurs twice in a run the last one counts.
    """
    found: list[dict[int, Decimal]] = []
    first = None
    for row in rows:
        step = int(row["step"])
        first = step if first is None else first
        if step == first:
            found.append({})
        found[-1][step] = Decimal(row["val_loss"])
    return found


def _rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
