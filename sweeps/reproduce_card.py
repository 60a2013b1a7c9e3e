"""The runs that the sweeps of `htbench reproduce` still need, a line for each sweep, from its plan."""

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
class Remaining:
    """The runs that a sweep still needs.

    Attributes:
        sweep: its name.
        points: the number of its points, with the replicas to come.
        runs: the number of runs that are not finished.
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


def read_paces() -> dict[str, float]:
    """Seconds a step of each experiment in the reproduction of docs/reproduction.md."""
    if not SEEN.is_file():
        return {}
    with SEEN.open(encoding="utf-8", newline="") as file:
        return {row["experiment"]: float(row["seconds"]) / int(row["steps"]) for row in csv.DictReader(file)}


def estimate(plan: Preview, paces: Mapping[str, float]) -> Remaining:
    """The runs that a sweep still needs, and their time.

    Args:
        plan: of the sweep.
        paces: of `read_paces`, for runs that were not measured; empty: their time is not known.
            A sweep without a pace has that of the end of the model's name: s1 of llama-s1.
    """
    unmeasured = [row for row in plan.facts.card if row.seconds is None]
    sweep_pace = paces.get(plan.spec.name.partition("-")[2])
    rows = [(row, sweep_pace or paces.get(row.model.rpartition("-")[2], 0.0)) for row in unmeasured]
    search, points = plan.spec.search, [p.point for p in plan.planned if p.point.stage == SEARCH]
    grows = search.mode == REFINE and not all(plan.run_states[p.id].status.is_settled for p in points)
    searches = {(point.block, *map(point.overrides.get, SEED_FIELDS)) for point in points}
    return Remaining(
        sweep=plan.spec.name,
        points=len(plan.planned) + plan.facts.replicas_to_come,
        runs=plan.facts.to_run,
        seconds=plan.facts.seconds + sum(pace * row.runs * (row.steps or 0) for row, pace in rows),
        unknown=sum(row.runs for row, pace in rows if not pace),
        more=max(0, (search.trials or 0) * len(searches) - len(points)) if grows else 0,
    )


def make_card(parts: Sequence[Remaining], notes: Sequence[Note]) -> Report:
    """The card: a line for each sweep, and their sum.

    Args:
        parts: the runs that each sweep still needs.
        notes: on the meaning of the times.
    """
    columns = [
        Column("sweep", kind="text"),
        Column("runs"),
        Column("to run", importance=9),
        Column("time", kind="text", least=24, importance=9),
    ]
    rows = [[part.sweep, part.points, part.runs, part.time] for part in [*parts, add_up(parts)]]
    return Report("reproduce", "", [table(columns, rows, notes=notes)])


def add_up(parts: Sequence[Remaining]) -> Remaining:
    """The sum of all sweeps."""
    sums = {name: sum(getattr(part, name) for part in parts) for name in list(vars(parts[0]))[1:]}
    return Remaining("together", **sums)
