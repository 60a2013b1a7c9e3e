"""The figure `loss`: the training curves of the runs of each optimizer's winner.

The winner is the best setting on the validation split. Its runs here are its replicas on fresh seeds.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from htbench.harness.show.note import Note
from htbench.harness.store import Store, curve
from htbench.results.compare.select import OPTIMIZER, choose
from htbench.results.compare.select import Row as Run
from htbench.results.compare.summary import finite_values
from htbench.results.figures.kinds import About, Panel, Row, ranged, tidy
from htbench.results.figures.of_runs import about, workloads
from htbench.results.frames.metrics import loss_unit, reported
from htbench.results.frames.rows import Frame, Rows, parts

_MOST_POINTS = 400  # of a drawn curve; more are not visible and make the PDF large
_START = 0.05  # first part of a run; the axis need not show its high losses, which would flatten the rest
_MANY_TIMES = 8  # if the ratio of largest to smallest value is greater, the axis is logarithmic
_MOST, _BEST = 26, 12  # so many optimizers have a look of their own; of more, so many are drawn
_WINDOWS = 25  # the window of the moving average is the longest run divided by this

Runs = Mapping[str, Sequence[Run]]  # rows of the frame by optimizer


def loss(frame: Frame, store: Store) -> list[Panel]:
    """One panel per workload with completed replicas: the training loss of each optimizer's winner."""
    panels = []
    for part in workloads(frame):
        found = {str(one.fixed["optimizer"]): completed(one.replicas) for one in choose(part, OPTIMIZER)}
        runs, best = _best({name: own for name, own in found.items() if own}, part)
        if runs:
            panels.append(losses(about(part).noted(best), loss_unit(part), runs, store))
    return panels


def completed(runs: Iterable[Run]) -> list[Run]:
    """The completed ones of some rows of the frame."""
    return [run for run in runs if run["state"] == "completed"]


def losses(of: About, unit: str, runs: Runs, store: Store, window: int | None = None) -> Panel:
    """The panel of some completed runs, at least one: mean and range over seeds.

    Args:
        of: what is said of it, without seeds and average.
        unit: of the loss.
        runs: by optimizer.
        store: where the curves are.
        window: steps of the moving average; None takes a part of the longest run.
    """
    window = window or max(1, max(int(run["steps"]) for own in runs.values() for run in own) // _WINDOWS)
    tables = average_losses(runs, store, window)
    of = replace(of, seeds=[len(own) for own in runs.values()])
    of = of.noted(Note("moving_average", steps=window) if window > 1 else None)
    label, rows = f"training loss ({unit})", []
    for name, table in tables.items():
        keys = tuple(str(run["key"]) for run in runs[name])
        for step, values in zip(table.index, table.to_numpy().tolist(), strict=True):
            known = [value for value in values if value == value]
            row = Row(label, name, float(step), None, n=len(known), keys=keys, optimizer=name)
            rows += [ranged(row, known)] if known else []
    limits, is_log = _limits(tables.values())
    return Panel("losses", of, tidy(rows), y_label=label, y_limits=limits, y_log=is_log)


def average_losses(runs: Runs, store: Store, window: int) -> dict[str, pd.DataFrame]:
    """Smoothed losses by optimizer (rows: steps, columns: seeds).

    At most _MOST_POINTS equally spaced rows, counted from the end, so that the last step is kept.
    """
    tables = {}
    for optimizer, own in runs.items():
        smooth = {}
        for run in own:
            values, updates = _losses(store, str(run["key"]))
            width = max(1, round(window * len(values) / max(1, updates)))
            smooth[run["seed"]] = pd.Series(values, dtype=float).rolling(width, min_periods=1).mean()
        table = pd.DataFrame(smooth).sort_index()
        if len(table):
            tables[optimizer] = table.iloc[:: -math.ceil(len(table) / _MOST_POINTS)].iloc[::-1]
    return tables


def _losses(store: Store, key: str) -> tuple[dict[int, float], int]:
    """The finite losses by step, and how many updates they are of: more than losses in a thinned curve."""
    rows = curve.read(store.files(key).metrics)
    known = [row for row in rows if isinstance(row.get("loss"), int | float) and math.isfinite(row["loss"])]
    return {row["step"]: row["loss"] for row in known}, sum(row.get("updates") or 1 for row in known)


def _limits(tables: Iterable[pd.DataFrame]) -> tuple[tuple[float, float] | None, bool]:
    """The limits of the losses after the start of the runs, and whether the axis is logarithmic."""
    starts, ends = [], []
    for table in tables:
        mean = table.mean(axis=1)
        starts.append(float(mean[mean.index >= mean.index[-1] * _START].iloc[0]))
        ends.append(float(table.min(axis=1).min()))
    if not starts:
        return None, False
    start, end = max(starts), min(ends)
    if 0 < end < start / _MANY_TIMES:
        return (0.8 * end, 1.2 * start), True
    margin = 0.05 * (start - end) or 1.0
    return (end - margin, start + margin), False


def _best(found: Runs, part: Rows) -> tuple[Runs, Note | None]:
    """All optimizers, or if too many to tell apart the best ones, which a note says."""
    if len(found) <= _MOST:
        return found, None
    metric = reported(part)[0]
    sign = -1 if metric.higher_is_better else 1
    ends = {
        str(own[0]["optimizer"]): statistics.fmean(finite_values(own, f"val_{metric.name}") or [math.nan])
        for own in parts(part, ["optimizer"])
    }
    order = sorted(found, key=lambda name: (sign * ends[name], name))[:_BEST]
    best = {name: own for name, own in found.items() if name in order}
    return best, Note("best_shown", shown=_BEST, all=len(found))
