"""Published results and public runs of the benchmark, as they were read off its log files.

The three CSV files beside this one hold facts of KellerJordan/modded-nanogpt (MIT), folder
`records/track_3_optimization`, state of 2026-08-01: GPT-2 with 124M parameters on FineWeb. Data, batch and
architecture are the same in every run; only the optimizer differs.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath

PLACE = Path(__file__).parent
TOP = "(top)"  # the folder of logs that lie in none


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
    found = []
    for row in _read(place / "history.csv"):
        log = PurePosixPath(row["log"])
        folder = str(log.parent) if len(log.parts) > 1 else TOP
        numbers = int(row["number"]), int(row["steps_to_target"]), Decimal(row["mean_loss"]), int(row["n"])
        found.append(Published(*numbers, row["date"], folder, log.stem))
    return found


def runs(place: Path = PLACE) -> list[Run]:
    """All public runs in the order of the logs. A log holds one run or several, one after the other.

    The next run begins where the log returns to its first step. Some logs repeat their last evaluations: of a
    step that occurs twice in a run the last one counts.
    """
    gpus = {_log(row): row["gpu"] for row in _read(place / "runs.csv")}
    logs: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in _read(place / "val_loss.csv"):
        logs.setdefault(_log(row), []).append(row)
    found = []
    for log, rows in logs.items():
        for row in rows:
            if row["step"] == rows[0]["step"]:
                losses = dict[int, Decimal]()
                found.append(Run(*log, int(rows[0]["total_steps"]), gpus.get(log, ""), losses))
            losses[int(row["step"])] = Decimal(row["val_loss"])
    return found


def _log(row: Mapping[str, str]) -> tuple[str, str]:
    return row["result"], row["run"]


def _read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
