"""What is in the store and what it cost, as tables."""

from collections.abc import Iterable, Sequence

import pandas as pd

from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.report import Cell, Column, Report, table
from htbench.harness.show.status import ENDED, Status
from htbench.harness.store.points import DROPPED, ELSEWHERE
from htbench.results.frames.cost import TOTAL_FLOPS
from htbench.results.frames.metrics import word

_STATES = ("completed", "diverged", "pruned", "failed", "damaged", "running", "waiting")
_MOST_NAMES = 4  # of sweeps, under the title
_SECONDS_AN_HOUR, _PETA = 3600, 1e15
_UNPLANNED = "(not planned)"


def finished(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of runs with a record, each run once however many sweeps want it."""
    names = [*frame.columns, "steps", "ended", "useful_seconds", TOTAL_FLOPS]
    frame = frame.reindex(columns=list(dict.fromkeys(names)))
    return frame[frame["steps"].notna()].drop_duplicates("key")


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
        dropped=len({*frame.loc[frame["stage"] == DROPPED, "key"]} - {*planned["key"]}),
        others=len({*frame.loc[frame["sweep"] == "", "key"]} - {*planned["key"]}),
    )


def sweeps(frame: pd.DataFrame) -> Report:
    """How far each sweep is."""
    shown = [state for state in _STATES if state in set(frame["state"])]
    wanted = frame[frame["stage"] != DROPPED]
    rows = []
    for name, part in wanted.groupby("sweep", sort=False):
        counts = part["state"].value_counts()
        rows.append([str(name) or _UNPLANNED, len(part), *(int(counts.get(state, 0)) for state in shown)])
    columns = _columns(["sweep"], ["runs", *shown])
    return Report("sweeps", "states of the runs", [table(columns, rows, title="Sweeps")])


def cost(frame: pd.DataFrame) -> list[Report]:
    """Hours and FLOPs by workload and by optimizer."""
    done = finished(frame)
    work = (Note("page_hours"), Note("page_flops"))
    return [
        _totals("cost-workloads", "Cost by workload", done, ("task", "model"), work),
        _totals("cost-optimizers", "Cost by optimizer", done, ("optimizer",)),
    ]


def _totals(
    name: str, title: str, done: pd.DataFrame, by: Sequence[str], notes: Iterable[Note] = ()
) -> Report:
    rows = []
    for values, part in done.groupby([done[column].map(word) for column in by], sort=False):
        counted_runs = int(part[TOTAL_FLOPS].notna().sum())
        work = float(f"{part[TOTAL_FLOPS].sum() / _PETA:.3g}") if counted_runs else None
        few = (
            [Note("page_counted", counted=counted_runs, runs=len(part))]
            if 0 < counted_runs < len(part)
            else []
        )
        hours = float(f"{part['useful_seconds'].sum() / _SECONDS_AN_HOUR:.3g}")
        rows.append([*values, len(part), hours, Cell(work, notes=tuple(few))])
    columns = _columns(by, ["runs", "hours", "PFLOP"])
    return Report(name, title, [table(columns, rows, title=title, notes=notes)])


def _columns(words: Iterable[str], numbers: Iterable[str]) -> list[Column]:
    return [*(Column(one, kind="text") for one in words), *map(Column, numbers)]
