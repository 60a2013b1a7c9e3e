"""What the sweeps of `htbench reproduce` still take, a line for each, from what `sweep plan --json` says."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import display

_SEEN = Path(__file__).parents[1] / "paper" / "seen.csv"  # by `docs/reproduction_page.py`


@dataclass(frozen=True)
class Left:
    """What is left of a sweep.

    Attributes:
        sweep: its name.
        points: its points, with the replicas to come.
        runs: the number of runs to run.
        seconds: of one worker, as far as known.
        gpu_hours: on the named GPU, of runs that nobody has measured.
        unknown: the number of runs whose cost nobody knows.
    """

    sweep: str
    points: int
    runs: int
    seconds: float
    gpu_hours: float
    unknown: int

    @property
    def time(self) -> str:
        """In words."""
        time = [display.duration(self.seconds)] if self.seconds else []
        time += [f"{self.gpu_hours:.3g} GPU-hours"] if self.gpu_hours else []
        time += [f"not known for {self.unknown} runs"] if self.unknown else []
        return " + ".join(time) or "-"


def seen() -> dict[str, float]:
    """Seconds of one run of a sweep in the reproduction of docs/reproduction.md, on average."""
    if not _SEEN.is_file():
        return {}
    with _SEEN.open(encoding="utf-8", newline="") as file:
        return {row["sweep"]: float(row["seconds"]) / int(row["runs"]) for row in csv.DictReader(file)}


def left(plan: Mapping[str, Any], known: Mapping[str, float]) -> Left:
    """What is left of a sweep.

    Args:
        plan: of one sweep, as `sweep plan --json` prints it.
        known: seconds of one run by sweep, for runs that were neither measured nor priced.
    """
    name, offers = plan["sweep"], [(one["runs"], one["offers"]) for one in plan["estimated"]]
    hours = [(runs, found[0]["gpu_hours"]) for runs, found in offers if found]
    priced = sum(runs for runs, each in hours if each is not None)
    unknown = sum(row["runs"] for row in plan["card"] if row["seconds"] is None) - priced
    assumed = unknown if name in known else 0
    return Left(
        sweep=name,
        points=len(plan["points"]) + plan["replicas_to_come"],
        runs=plan["to_run"],
        seconds=plan["seconds"] + assumed * known.get(name, 0.0),
        gpu_hours=sum(runs * each for runs, each in hours if each is not None),
        unknown=unknown - assumed,
    )


def card(lines: Sequence[Left]) -> str:
    """The card: a line for each sweep, and their sum."""
    every = [*lines, together(lines)]
    rows = [[one.sweep, one.points, one.runs, one.time] for one in every]
    return display.aligned([["sweep", "points", "to run", "time"], *rows], ("sweep", "time"))


def together(lines: Sequence[Left]) -> Left:
    """The sum."""
    return Left(
        "together",
        sum(one.points for one in lines),
        sum(one.runs for one in lines),
        sum(one.seconds for one in lines),
        sum(one.gpu_hours for one in lines),
        sum(one.unknown for one in lines),
    )
