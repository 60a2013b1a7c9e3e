"""The figure `loss`: the training curves of the runs of each optimizer's winner.

The winner is the best setting on the validation split. Its runs here are its replicas on fresh seeds.
"""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

from htbench.harness.show.note import Note
from htbench.harness.store import Store, curve
from htbench.results.compare.select import Row as Run
from htbench.results.compare.summary import finite_values
from htbench.results.compare.workload import Workload
from htbench.results.figures.kinds import About, Panel, Row, add_range, list_keys, tidy
from htbench.results.figures.run_figures import describe_workload
from htbench.results.frames.metrics import loss_unit
from htbench.results.frames.rows import parts

_MOST_POINTS = 400  # of a drawn curve; more are not visible and make the PDF large
_START = 0.05  # first part of a run; the axis need not show its high losses, which would flatten the rest
_MANY_TIMES = 8  # if the ratio of largest to smallest value is greater, the axis is logarithmic
_MOST, _BEST = 26, 12  # so many optimizers have a look of their own; of more, so many are drawn
_WINDOWS = 25  # the window of the moving average is the longest run divided by this

Runs = Mapping[str, Sequence[Run]]  # rows of the frame by optimizer


def loss(workload: Workload) -> list[Panel]:
    """The training loss of each optimizer's winner on a workload with completed replicas.

    Of optimizers too many to tell apart it has the best ones, which a note says.
    """
    part, store, metric = workload.part, workload.store, workload.metric
    assert store is not None
    completed = {choice.optimizer: select_completed(choice.replicas) for choice in workload.choices}
    runs = {name: rows for name, rows in completed.items() if rows}
    about = describe_workload(workload)
    if len(runs) > _MOST:
        sign = -1 if metric.higher_is_better else 1
        ends = {}
        for rows in parts(part, ["optimizer"]):
            values = finite_values(rows, f"val_{metric.name}")
            ends[str(rows[0]["optimizer"])] = sign * statistics.fmean(values or [math.nan])
        about = about.noted(Note("best_shown", shown=_BEST, all=len(runs)))
        best = sorted(runs, key=lambda name: (ends[name], name))[:_BEST]
        runs = {name: runs[name] for name in runs if name in best}
    panels = [plot_losses(about, loss_unit(part), runs, store)] if runs else []
    return [panel for panel in panels if len(panel.frame)]  # a program need not report losses of training


def select_completed(runs: Iterable[Run]) -> list[Run]:
    """The completed ones of some rows of the frame."""
    return [run for run in runs if run["state"] == "completed"]


def plot_losses(about: About, unit: str, runs: Runs, store: Store, window: int | None = None) -> Panel:
    """The panel of some completed runs, at least one: mean and range over seeds.

    Args:
        about: what is said of it, without seeds and average.
        unit: of the loss.
        runs: by optimizer.
        store: where the curves are.
        window: steps of the moving average; None takes a part of the longest run.
    """
    if window is None:
        window = max(1, max(int(run["steps"]) for run in chain(*runs.values())) // _WINDOWS)
    tables = average_losses(runs, store, window)
    about = replace(about, seeds=[*map(len, runs.values())])
    about = about.noted(Note("moving_average", steps=window) if window > 1 else None)
    label, rows = f"training loss ({unit})", []
    for name, table in tables.items():
        keys = list_keys(runs[name])
        for step, values in zip(table.index, table.to_numpy().tolist(), strict=True):
            finite = [value for value in values if value == value]
            row = Row(label, name, float(step), None, n=len(finite), keys=keys)
            rows += [add_range(row, finite)] if finite else []
    limits, is_log = _find_limits(tables.values())
    return Panel("losses", about, tidy(rows), y_limits=limits, y_log=is_log)


def average_losses(runs: Runs, store: Store, window: int) -> dict[str, pd.DataFrame]:
    """Smoothed losses by optimizer (rows: steps, columns: seeds).

    At most _MOST_POINTS equally spaced rows, counted from the end, so that the last step is kept.
    """
    tables = {}
    for optimizer, optimizer_runs in runs.items():
        smooth = {}
        for run in optimizer_runs:
            rows = [row for row in curve.read(store.files(str(run["key"])).metrics) if _has_loss(row)]
            values = {row["step"]: row["loss"] for row in rows}
            updates = sum(row.get("updates") or 1 for row in rows)  # more than losses in a thinned curve
            width = max(1, round(window * len(values) / max(1, updates)))
            smooth[run["seed"]] = pd.Series(values, dtype=float).rolling(width, min_periods=1).mean()
        table = pd.DataFrame(smooth).sort_index()
        if len(table):
            tables[optimizer] = table.iloc[:: -math.ceil(len(table) / _MOST_POINTS)].iloc[::-1]
    return tables


def _has_loss(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("loss"), int | float) and math.isfinite(row["loss"])


def _find_limits(tables: Collection[pd.DataFrame]) -> tuple[tuple[float, float] | None, bool]:
    """The limits of the losses after the start of the runs, and whether the axis is logarithmic."""
    means = [table.mean(axis=1) for table in tables]
    if not means:
        return None, False
    start = max(float(mean[mean.index >= mean.index[-1] * _START].iloc[0]) for mean in means)
    end = min(float(table.min().min()) for table in tables)
    if 0 < end < start / _MANY_TIMES:
        return (0.8 * end, 1.2 * start), True
    margin = 0.05 * (start - end) or 1.0
    return (end - margin, start + margin), False
