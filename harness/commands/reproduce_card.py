"""What the sweeps of `htbench reproduce` still take, a line for each, from what `sweep plan --json` says."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import display
from harness.display import Column

SEEN = Path(__file__).parents[1] / "paper" / "seen.csv"  # written by `docs/reproduction_page.py`


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
        time += [f"{display.hours(self.gpu_hours)} GPU-hours"] if self.gpu_hours else []
        time += [f"not known for {display.counted(self.unknown, 'run')}"] if self.unknown else []
        return " + ".join(time) or "-"


def seen() -> dict[str, float]:
    """Seconds for a step of each experiment in the reproduction of docs/reproduction.md, all in all."""
    if not SEEN.is_file():
        return {}
    with SEEN.open(encoding="utf-8", newline="") as file:
        return {row["experiment"]: float(row["seconds"]) / int(row["steps"]) for row in csv.DictReader(file)}


def left(plan: Mapping[str, Any], known: Mapping[str, float]) -> Left:
    """What is left of a sweep.

    Args:
        plan: of one sweep, as `sweep plan --json` prints it.
        known: as `seen` returns it, for runs that were neither measured nor priced; empty if it says nothing.
    """
    offers = [(one["runs"], one["offers"][0]["gpu_hours"]) for one in plan["estimated"] if one["offers"]]
    priced = [(runs, hours) for runs, hours in offers if hours is not None]
    others = [row for row in plan["card"] if row["seconds"] is None]
    a_step = known.get(plan["sweep"].partition("-")[2])
    steps = sum(row["runs"] * (row["steps"] or 0) for row in others)
    unknown = sum(row["runs"] for row in others) - sum(runs for runs, _ in priced)
    return Left(
        sweep=plan["sweep"],
        points=len(plan["points"]) + plan["replicas_to_come"],
        runs=plan["to_run"],
        seconds=plan["seconds"] + steps * (a_step or 0.0),
        gpu_hours=sum(runs * hours for runs, hours in priced),
        unknown=0 if a_step else unknown,
    )


def card(lines: Sequence[Left], width: int | None = None) -> str:
    """The card: a line for each sweep, and their sum; `width` is that of a terminal."""
    every = [*lines, together(lines)]
    rows = [[one.sweep, one.points, one.runs, one.time] for one in every]
    columns = {"sweep": Column(words=True, rank=0), "time": Column(words=True, least=24, rank=0)}
    head = ["sweep", "points", "to run", "time"]
    return display.aligned([head, *rows], columns, width, more="`htbench sweep plan --json` has all")


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
