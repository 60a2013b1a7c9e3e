"""What is in the store and what it cost, as tables."""

from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.report import Cell, Column, Report, table
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store.points import DROPPED, ELSEWHERE
from htbench.results.compare.select import drop_repeated
from htbench.results.frames.columns import TOTAL_FLOPS
from htbench.results.frames.metrics import is_number
from htbench.results.frames.rows import Rows, parts

_MOST_NAMES = 4  # of sweeps, under the title
_SECONDS_AN_HOUR, _PETA = 3600, 1e15


def scope(frame: Rows) -> Note:
    """What the page is about: the sweeps, and how far they are."""
    planned = [row for row in frame if row["sweep"] and row["stage"] not in (DROPPED, ELSEWHERE)]
    names = list(dict.fromkeys(str(row["sweep"]) for row in planned))
    states = [row["state"] for row in drop_repeated(planned)]
    return Note(
        "page_scope",
        sweeps=names if len(names) <= _MOST_NAMES else [counted(len(names), "sweep")],
        runs=len(states),
        ended=sum(map(states.count, ENDED)),
        failed=states.count(Status.FAILED),
    )


def cost(frame: Rows) -> Report:
    """Hours and FLOPs of the optimizers on each workload."""
    by, rows = ("task", "model", "optimizer"), []
    finished = drop_repeated(row for row in frame if is_number(row.get("steps")))  # a run counts once
    for part in parts(finished, by):
        work = [row[TOTAL_FLOPS] for row in part if is_number(row.get(TOTAL_FLOPS))]
        few = [Note("page_counted", counted=len(work), runs=len(part))] * (0 < len(work) < len(part))
        operations = float(f"{sum(work) / _PETA:.3g}") if work else None
        hours = float(f"{sum(row['useful_seconds'] for row in part) / _SECONDS_AN_HOUR:.3g}")
        places = [part[0][name] for name in by]
        rows.append([*places, len(part), hours, Cell(operations, notes=tuple(few))])
    columns = [*(Column(column, kind="text") for column in by), *map(Column, ("runs", "hours", "PFLOP"))]
    notes = (Note("page_hours"), Note("page_flops"))
    return Report("cost", "Cost", [table(columns, rows, title="Cost", notes=notes)] if rows else [])
