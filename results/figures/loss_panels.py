"""The data of the figure `loss`: the runs of each optimizer's winner as plain values, and their curves.

The winner is the best setting on the validation split. Its runs here are its replicas on fresh seeds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from harness.store import Store, curve
from results.compare.select import OPTIMIZER, Row, choose
from results.compare.winners import over_seeds
from results.figures.kinds import CurvePanel, Point, Series, spread
from results.figures.panels import titles, workloads
from results.frames import imported
from results.frames.metrics import loss_unit, reported

_MOST_POINTS = 400  # of a drawn curve; more are not visible and make the PDF large
_START = 0.05  # first part of a run; the axis need not show its high losses, which would flatten the rest
_MANY_TIMES = 8  # if the ratio of largest to smallest value is greater, the axis is logarithmic
_MOST, _BEST = 26, 12  # so many optimizers have a look of their own; of more, so many are drawn
_WINDOWS = 25  # the window of the moving average is the longest run divided by this


@dataclass(frozen=True)
class Run:
    """One replica's training curve.

    Attributes:
        key: of the run, whose folder has the curve.
        seed: of the run.
        steps: updates that it made.
        digest: SHA-256 of `metrics.jsonl`, so that a changed curve is drawn again; empty without the file.
    """

    key: str
    seed: int
    steps: int
    digest: str


@dataclass(frozen=True)
class LossPanel:
    """One workload of the figure `loss`.

    Attributes:
        title, subtitle: text above the panel.
        unit: of the loss.
        window: steps of the moving average.
        runs: the completed replicas of each optimizer's winner, by optimizer.
        name: of the loss in a row of a curve; others' runs may have that of the validation only.
    """

    title: str
    subtitle: str
    unit: str
    window: int
    runs: dict[str, list[Run]]
    name: str = "loss"

    def read(self, store: Store) -> tuple[CurvePanel, list[str]]:
        """The panel with its curves: mean and range over seeds. Warnings are about damaged curves."""
        curves = read_curves(self, store)
        keys = {name: tuple(run.key for run in own) for name, own in self.runs.items()}
        series = [Series(name, _points(table, keys[name])) for name, table in curves.losses.items()]
        limits, logarithmic = _limits(curves.losses.values())
        which = "training loss" if self.name == "loss" else "validation loss"
        unit = f" ({self.unit})" if self.unit else ""
        panel = CurvePanel(self.title, self.subtitle, "step", f"{which}{unit}", series)
        panel = replace(panel, marks=False, y_limits=limits, y_log=logarithmic)
        return panel, curves.warnings


@dataclass
class Curves:
    """Smoothed training losses by optimizer (rows: steps, columns: seeds), and warnings on damaged files."""

    losses: dict[str, pd.DataFrame] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def _points(table: pd.DataFrame, keys: tuple[str, ...]) -> list[Point]:
    rows = zip(table.index, table.itertuples(index=False), strict=True)
    found = [(step, [value for value in row if value == value]) for step, row in rows]
    values = ((float(step), len(own), spread(own)) for step, own in found if own)
    return [Point(step, mean, sd, n, keys, low, high) for step, n, (mean, sd, low, high) in values]


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


def loss(frame: pd.DataFrame, store: Store) -> list[LossPanel]:
    """One panel per workload with completed replicas: the training loss of each optimizer's winner."""
    panels = []
    for part in workloads(frame):
        found = {
            str(choice.fixed["optimizer"]): curves_of(choice.replicas, store)
            for choice in choose(part, OPTIMIZER)
        }
        runs, best = _best({name: own for name, own in found.items() if own}, part)
        if runs and imported.source(part):
            panels += _imported_panel(part, best, runs)
        elif runs:
            panels.append(loss_panel(*_titles(part, best), loss_unit(part), runs))
    return panels


def _best(found: dict[str, list[Run]], part: pd.DataFrame) -> tuple[dict[str, list[Run]], str]:
    """All optimizers, or if too many to tell apart the best ones, which a remark says."""
    if len(found) <= _MOST:
        return found, ""
    metric = reported(part)[0]
    sign = -1 if metric.higher_is_better else 1
    ends = part[part["state"] == "completed"].groupby("optimizer")[f"val_{metric.name}"].mean()
    order = sorted(found, key=lambda name: (sign * ends[name], name))[:_BEST]
    return {name: own for name, own in found.items() if name in order}, f"the {_BEST} best of {len(found)}"


def _titles(part: pd.DataFrame, best: str) -> tuple[str, str]:
    title, setting = titles(part)
    return title, "\n".join(filter(None, [setting, best]))


def _imported_panel(part: pd.DataFrame, best: str, runs: dict[str, list[Run]]) -> list[LossPanel]:
    """The validation loss, if the runs have one: others log the training loss as they like."""
    if "val_loss" not in part or part["val_loss"].isna().all():
        return []
    return [replace(loss_panel(*_titles(part, best), loss_unit(part), runs, window=1), name="val_loss")]


def loss_panel(
    title: str, setting: str, unit: str, runs: dict[str, list[Run]], window: int | None = None
) -> LossPanel:
    """The panel of some runs, at least one.

    Args:
        title, setting: text above it.
        unit: of the loss.
        runs: by optimizer.
        window: steps of the moving average; None takes a part of the longest run.
    """
    window = window or max(1, max(run.steps for own in runs.values() for run in own) // _WINDOWS)
    smoothed = f", {window}-step moving average" if window > 1 else ""
    how = over_seeds([len(own) for own in runs.values()], "mean and range") + smoothed
    return LossPanel(title, "\n".join(filter(None, [setting, how])), unit, window, runs)


def curves_of(runs: Iterable[Row], store: Store) -> list[Run]:
    """The completed ones of some rows of the frame."""
    return [
        Run(run["key"], run["seed"], int(run["steps"]), _file_digest(store, run["key"]))
        for run in runs
        if run["state"] == "completed"
    ]


def _file_digest(store: Store, key: str) -> str:
    try:
        return hashlib.sha256(store.files(key).metrics.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def read_curves(panel: LossPanel, store: Store) -> Curves:
    """Read the curves of a panel and smooth each by a moving average over the last `panel.window` steps."""
    curves = Curves()
    for optimizer, runs in panel.runs.items():
        own = [(run, _losses(store, run.key, panel.name)) for run in runs]
        if panel.name == "loss":  # of each step; evaluations are rarer
            curves.warnings += [_damage(optimizer, run, len(x)) for run, x in own if len(x) < run.steps]
        smoothed = {run.seed: _moving_average(losses, panel.window) for run, losses in own}
        table = pd.DataFrame(smoothed).sort_index()
        if len(table):
            curves.losses[optimizer] = _thinned(table)
    return curves


def _damage(optimizer: str, run: Run, steps: int) -> str:
    return (
        f"The curve of run {run.key} ({optimizer}, seed {run.seed}) is damaged: {steps} of "
        f"its {run.steps} steps can be read, and the figure is drawn from those."
    )


def _moving_average(losses: Mapping[int, float], window: int) -> pd.Series[float]:
    return pd.Series(losses, dtype=float).rolling(window, min_periods=1).mean()


def _thinned(table: pd.DataFrame) -> pd.DataFrame:
    """Keep at most _MOST_POINTS equally spaced rows, counted from the end, so that the last step is kept."""
    every = math.ceil(len(table) / _MOST_POINTS)
    return table.iloc[::-1].iloc[::every].iloc[::-1]


def _losses(store: Store, key: str, name: str) -> Mapping[int, float]:
    rows: Iterable[dict[str, Any]] = curve.read(store.files(key).metrics)
    pairs = ((row["step"], row.get(name)) for row in rows)
    return {step: loss for step, loss in pairs if isinstance(loss, int | float) and math.isfinite(loss)}
