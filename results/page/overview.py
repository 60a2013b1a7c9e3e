"""What is in the store and what it cost, as tables."""

import pandas as pd

from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.report import Cell, Column, Report, table
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store.points import DROPPED, ELSEWHERE
from htbench.results.frames.columns import TOTAL_FLOPS
from htbench.results.frames.metrics import word

_MOST_NAMES = 4  # of sweeps, under the title
_SECONDS_AN_HOUR, _PETA = 3600, 1e15


def scope(frame: pd.DataFrame) -> Note:
    """What the page is about: the sweeps, and how far they are."""
    planned = frame[~frame["stage"].isin([DROPPED, ELSEWHERE]) & (frame["sweep"] != "")]
    names = list(map(str, planned["sweep"].unique()))
    states = planned.drop_duplicates("key")["state"].value_counts()
    return Note(
        "page_scope",
        sweeps=names if len(names) <= _MOST_NAMES else [counted(len(names), "sweep")],
        runs=int(states.sum()),
        ended=int(states.reindex(ENDED).sum()),
        failed=int(states.get(Status.FAILED, 0)),
    )


def cost(frame: pd.DataFrame) -> Report:
    """Hours and FLOPs of the optimizers on each workload."""
    names = [*frame.columns, "steps", "useful_seconds", TOTAL_FLOPS]
    frame = frame.reindex(columns=list(dict.fromkeys(names)))
    finished = frame[frame["steps"].notna()].drop_duplicates("key")  # a run counts once
    by = ["task", "model", "optimizer"]
    rows = []
    for values, part in finished.groupby([finished[column].map(word) for column in by], sort=False):
        counted_runs = int(part[TOTAL_FLOPS].notna().sum())
        work = float(f"{part[TOTAL_FLOPS].sum() / _PETA:.3g}") if counted_runs else None
        few = [Note("page_counted", counted=counted_runs, runs=len(part))] * (0 < counted_runs < len(part))
        hours = float(f"{part['useful_seconds'].sum() / _SECONDS_AN_HOUR:.3g}")
        rows.append([*values, len(part), hours, Cell(work, notes=tuple(few))])
    columns = [*(Column(column, kind="text") for column in by), *map(Column, ("runs", "hours", "PFLOP"))]
    notes = (Note("page_hours"), Note("page_flops"))
    return Report("cost", "Cost", [table(columns, rows, title="Cost", notes=notes)] if rows else [])
