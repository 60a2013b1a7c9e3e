"""What is in the store and what it cost, as tables; and the runs behind the cells of other tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.paper import experiments
from harness.show.note import text
from harness.show.numbers import counted
from harness.show.report import Cell, Column, Report, Section
from harness.store.points import DROPPED
from harness.store.record import IMPORTED
from results.frames.cost import TOTAL_FLOPS
from results.frames.metrics import word
from results.page.runs import Behind, label

_STATES = ("completed", "diverged", "pruned", "failed", "damaged", "running", "waiting")
_ENVIRONMENT = ("code", "python", "torch", "machine", "device", "processes", "threads")
_MOST_NAMES = 30
_SECONDS_AN_HOUR, _PETA = 3600, 1e15
_WORK = (
    "Hours are those of the training steps that count: without evaluations, and without steps made again.",
    "FLOPs are those of model and optimizer. Older runs, and those that can't be counted, are left out.",
)
_UNPLANNED = "(not planned)"
Row = Mapping[Any, Any]


def finished(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of runs with a record, each run once however many sweeps want it."""
    frame = frame.reindex(columns=list(dict.fromkeys([*frame.columns, "steps", *_ENVIRONMENT, "ended"])))
    return frame[frame["steps"].notna()].drop_duplicates("key")


def _wanted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows without dropped runs."""
    return frame[frame["stage"] != DROPPED]


def newest(frame: pd.DataFrame) -> str:
    """When the newest record was written, ISO 8601 in UTC; empty if no record says so."""
    return max((time for time in finished(frame)["ended"] if isinstance(time, str)), default="")


def in_words(frame: pd.DataFrame) -> dict[str, str]:
    """The store in a few facts."""
    done = finished(frame)
    scales = dict.fromkeys(filter(None, map(experiments.scale_of, frame["sweep"].unique())))
    wanted = _wanted(frame)
    planned = wanted[wanted["sweep"] != ""]
    others = frame["key"].nunique() - planned["key"].nunique()
    unplanned = f", {others} not planned by a sweep" if others else ""
    return {
        "runs": f"{planned['key'].nunique()} planned{unplanned}, {len(done)} with a record",
        **_imported(frame),
        "sweeps": str(planned["sweep"].nunique()),
        "scales of the paper": ", ".join(scales) or "none: only other sweeps",
        "workloads": ", ".join(dict.fromkeys(f"{one.task} {one.model}" for one in frame.itertuples())),
        "optimizers": _listing(list(map(str, frame["optimizer"].unique()))),
        "training time": f"{_hours(done):.3g} hours",
        "newest record": newest(frame) or "none has a time",
    }


def _imported(frame: pd.DataFrame) -> dict[str, str]:
    """How many runs others made; nothing if all are ours."""
    own = frame[frame[IMPORTED] != ""]
    if own.empty:
        return {}
    runs = counted(own["key"].nunique(), "run")
    return {"of others": f"{runs}, imported as {', '.join(own[IMPORTED].unique())}"}


def _listing(names: Sequence[str]) -> str:
    """The names, of many only the first."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def sweeps(frame: pd.DataFrame) -> Report:
    """How far each sweep is."""
    shown = [state for state in _STATES if state in set(frame["state"])]
    columns = [_text("sweep"), _number("points"), *map(_number, shown)]
    rows = []
    for name, part in _wanted(frame).groupby("sweep", sort=False):
        counts = part["state"].value_counts()
        rows.append(
            [
                Cell(str(name) or _UNPLANNED),
                Cell(len(part)),
                *(Cell(int(counts.get(state, 0))) for state in shown),
            ]
        )
    return Report("sweeps", "states of the points", [Section("Sweeps", {}, columns, rows)])


def environments(frame: pd.DataFrame) -> Report:
    """What the runs were made with."""
    return _totals("environments", "Environments", finished(frame), _ENVIRONMENT)


def cost(frame: pd.DataFrame) -> list[Report]:
    """Hours and FLOPs by workload, by optimizer and by machine."""
    done = finished(frame)
    return [
        _totals("cost-workloads", "Cost by workload", done, ("task", "model"), _WORK),
        _totals("cost-optimizers", "Cost by optimizer", done, ("optimizer",)),
        _totals("cost-machines", "Cost by machine", done, ("machine", "device", "processes")),
        _totals("cost-sweeps", "Cost by sweep that planned the run first", _named(done), ("sweep",)),
    ]


def _named(done: pd.DataFrame) -> pd.DataFrame:
    return done.assign(sweep=done["sweep"].replace("", _UNPLANNED))


def runs(frame: pd.DataFrame, behind: Behind) -> Report:
    """The runs behind the cells of the tables."""
    own = frame[frame["key"].isin(list(behind.numbers))].drop_duplicates("key")
    columns = [_text("run"), _text("key"), _text("task"), _text("model"), _text("stage"), _text("state")]
    columns += [_number("steps"), _number("validation loss"), _number("minutes")]
    rows = [_run(row) for row in own.to_dict("records")]
    notes = (
        (f"{behind.left_out} more runs have no room on this page; `htbench table --format csv` names them.",)
        if behind.left_out
        else ()
    )
    return Report(
        "runs", "behind the cells", [Section("Runs", {}, columns, rows, notes=tuple(map(text, notes)))]
    )


def _run(row: Row) -> list[Cell]:
    seconds = _value(row.get("useful_seconds"))
    words = [Cell(str(row[name])) for name in ("key", "task", "model", "stage", "state")]
    return [
        Cell(label(row), runs=(row["key"],)),
        *words,
        Cell(_value(row.get("steps"))),
        Cell(_value(row.get("val_loss")), 4),
        Cell(None if seconds is None else float(f"{seconds / 60:.3g}")),
    ]


def _totals(
    name: str, title: str, done: pd.DataFrame, by: Sequence[str], notes: tuple[str, ...] = ()
) -> Report:
    columns = [*map(_text, by), _number("runs"), _number("hours"), _number("PFLOP")]
    rows = []
    for values, part in done.groupby([done[column].map(word) for column in by], sort=False):
        totals = [Cell(len(part)), Cell(float(f"{_hours(part):.3g}")), _flops(part)]
        rows.append([*(Cell(str(value)) for value in values), *totals])
    return Report(name, title, [Section(title, {}, columns, rows, notes=tuple(map(text, notes)))])


def _hours(part: pd.DataFrame) -> float:
    return float(part["useful_seconds"].sum()) / _SECONDS_AN_HOUR if "useful_seconds" in part else 0.0


def _flops(part: pd.DataFrame) -> Cell:
    counted = int(part[TOTAL_FLOPS].notna().sum()) if TOTAL_FLOPS in part else 0
    if not counted:
        return Cell()
    notes = (text(f"counted for {counted} of the {len(part)} runs"),) if counted < len(part) else ()
    return Cell(float(f"{float(part[TOTAL_FLOPS].sum()) / _PETA:.3g}"), notes=notes)


def _value(x: Any) -> float | None:
    return None if x is None or x != x else float(x)


def _text(label: str) -> Column:
    return Column(label, label, "text")


def _number(label: str) -> Column:
    return Column(label, label)
