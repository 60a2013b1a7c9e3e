"""Published results and public runs of the benchmark, as they were read off its log files.

The three CSV files beside this one hold facts of KellerJordan/modded-nanogpt (MIT), folder
`records/track_3_optimization`, state of 2026-08-01: GPT-2 with 124M parameters on FineWeb. Data, batch and
architecture are the same in every run; only the optimizer differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath

import pandas as pd

PLACE = Path(__file__).parent
TOP = "(top)"  # the folder of logs that lie in none
_LOG = ["result", "run"]  # the columns that name a log


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
    for row in _read(place / "history.csv").to_dict("records"):
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
    frame = _read(place / "val_loss.csv").astype({"step": int, "total_steps": int})
    logs = frame.groupby(_LOG, sort=False)
    begins = frame["step"] == logs["step"].transform("first")
    frame["number"] = begins.groupby([frame[name] for name in _LOG], sort=False).cumsum()
    frame["total_steps"] = logs["total_steps"].transform("first")
    frame = frame.merge(_read(place / "runs.csv")[[*_LOG, "gpu"]], on=_LOG, how="left").fillna({"gpu": ""})
    found = []
    for _, own in frame.groupby([*_LOG, "number"], sort=False):
        first = own.iloc[0]
        losses = dict(zip(own["step"].tolist(), map(Decimal, own["val_loss"]), strict=True))
        found.append(Run(first["result"], first["run"], int(first["total_steps"]), first["gpu"], losses))
    return found


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)
