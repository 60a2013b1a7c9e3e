"""What the sweeps of `htbench reproduce` still take, a line for each, from what `sweep plan` finds."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted, duration
from htbench.harness.show.report import Column, Report, table
from htbench.harness.store.points import SEARCH, SEED_FIELDS
from htbench.harness.system.environment import HOME
from htbench.sweeps.screens.plan import Preview
from htbench.sweeps.spec.search import REFINE

SEEN = HOME / "harness" / "paper" / "seen.csv"  # written by `docs/reproduction_page.py`


@dataclass(frozen=True)
class Left:
    """What is left of a sweep.

    Attributes:
        sweep: its name.
        points: its points, with the replicas to come.
        runs: the number of runs to run.
        seconds: of one worker, as far as known.
        unknown: the number of runs whose cost nobody knows.
        more: the most runs by which its searches may grow, where they refine a rate.
    """

    sweep: str
    points: int
    runs: int
    seconds: float
    unknown: int
    more: int = 0

    @property
    def time(self) -> str:
        """In words."""
        parts = [duration(self.seconds)] if self.seconds else []
        parts += [f"not known for {counted(self.unknown, 'run')}"] if self.unknown else []
        return " + ".join(parts) or "-"


def seen() -> dict[str, float]:
    """Seconds for a step of each experiment in the reproduction of docs/reproduction.md, all in all."""
    if not SEEN.is_file():
        return {}
    with SEEN.open(encoding="utf-8", newline="") as file:
        return {row["experiment"]: float(row["seconds"]) / int(row["steps"]) for row in csv.DictReader(file)}


def left(plan: Preview, known: Mapping[str, float]) -> Left:
    """What is left of a sweep.

    Args:
        plan: of the sweep.
        known: as `seen` returns it, for runs that were not measured; empty if it says nothing.
            Of a sweep that nobody has seen, that of the end of the model's name: s1 of llama-s1.
    """
    unmeasured = [row for row in plan.facts.card if row.seconds is None]
    own = known.get(plan.spec.name.partition("-")[2])
    paces = [own or known.get(row.model.rpartition("-")[2], 0.0) for row in unmeasured]
    rows = list(zip(unmeasured, paces, strict=True))
    search, tried = plan.spec.search, [one.point for one in plan.planned if one.point.stage == SEARCH]
    grows = search.mode == REFINE and not all(plan.found[point.id].status.is_settled for point in tried)
    searches = {(point.block, *map(point.overrides.get, SEED_FIELDS)) for point in tried}
    return Left(
        sweep=plan.spec.name,
        points=len(plan.planned) + plan.facts.replicas_to_come,
        runs=plan.facts.to_run,
        seconds=plan.facts.seconds + sum(pace * row.runs * (row.steps or 0) for row, pace in rows),
        unknown=sum(row.runs for row, pace in rows if not pace),
        more=max(0, (search.trials or 0) * len(searches) - len(tried)) if grows else 0,
    )


def card(parts: Sequence[Left], notes: Sequence[Note]) -> Report:
    """The card: a line for each sweep, and their sum.

    Args:
        parts: what is left of each sweep.
        notes: what its times mean.
    """
    columns = [
        Column("sweep", kind="text"),
        Column("runs"),
        Column("to run", importance=9),
        Column("time", kind="text", least=24, importance=9),
    ]
    rows = [[part.sweep, part.points, part.runs, part.time] for part in [*parts, together(parts)]]
    return Report("reproduce", "", [table(columns, rows, notes=notes)])


def together(parts: Sequence[Left]) -> Left:
    """The sum."""
    sums = {name: sum(getattr(part, name) for part in parts) for name in list(vars(parts[0]))[1:]}
    return Left("together", **sums)
