"""The figure `loss`: the training curves of the runs of each optimizer's winner.

The winner is the best setting on the validation split. Its runs here are its replicas on fresh seeds. A curve
is read only if the figure is drawn: what is known before is the digest of its file.
"""

import hashlib
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from htbench.harness.show.note import Note
from htbench.harness.store import Store, curve
from htbench.results.compare.select import OPTIMIZER, Row, choose
from htbench.results.compare.summary import finite_values
from htbench.results.figures import kinds
from htbench.results.figures.kinds import About, Panel, ranged, tidy
from htbench.results.figures.of_runs import about, workloads
from htbench.results.frames.metrics import loss_unit, reported
from htbench.results.frames.rows import Frame, Rows, parts

_MOST_POINTS = 400  # of a drawn curve; more are not visible and make the PDF large
_START = 0.05  # first part of a run; the axis need not show its high losses, which would flatten the rest
_MANY_TIMES = 8  # if the ratio of largest to smallest value is greater, the axis is logarithmic
_MOST, _BEST = 26, 12  # so many optimizers have a look of their own; of more, so many are drawn
_WINDOWS = 25  # the window of the moving average is the longest run divided by this

Runs = dict[str, list["Curve"]]  # by optimizer


@dataclass(frozen=True)
class Curve:
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
class Losses:
    """One workload whose curves are not read yet.

    Attributes:
        about: as of a panel.
        unit: of the loss.
        window: steps of the moving average.
        runs: the completed replicas of each optimizer's winner.
        marks: of each optimizer, as of a row.
    """

    about: About
    unit: str
    window: int
    runs: Runs
    marks: Mapping[str, str] = field(default_factory=dict)

    def facts(self) -> list[Any]:
        """All of it as plain values."""
        runs = {name: [vars(one) for one in own] for name, own in self.runs.items()}
        return [vars(self) | {"runs": runs}]

    def read(self, store: Store) -> tuple[Panel, list[str]]:
        """The panel with its curves: mean and range over seeds. Warnings are about damaged curves."""
        tables, warnings = self.tables(store)
        label = f"training loss ({self.unit})"
        rows = []
        for name, table in tables.items():
            keys = tuple(one.key for one in self.runs[name])
            for step, values in zip(table.index, table.to_numpy().tolist(), strict=True):
                known = [value for value in values if value == value]
                row = kinds.Row(label, name, float(step), None, n=len(known), keys=keys, optimizer=name)
                row = replace(row, marks=self.marks.get(name, ""))
                rows += [ranged(row, known)] if known else []
        panel = Panel("losses", self.about, tidy(rows), y_label=label)
        limits, is_log = _limits(tables.values())
        return replace(panel, y_limits=limits, y_log=is_log), warnings

    def tables(self, store: Store) -> tuple[dict[str, pd.DataFrame], list[str]]:
        """Smoothed losses by optimizer (rows: steps, columns: seeds), and warnings on damaged files.

        At most _MOST_POINTS equally spaced rows, counted from the end, so that the last step is kept.
        """
        found, warnings = {}, []
        for optimizer, runs in self.runs.items():
            losses = {run: _losses(store, run.key) for run in runs}
            for run, (_, updates) in losses.items():
                if updates < run.steps:
                    warnings.append(
                        f"The curve of run {run.key} ({optimizer}, seed {run.seed}) is damaged: {updates} "
                        f"of its {run.steps} steps can be read, and the figure is drawn from those."
                    )
            smooth = {
                run.seed: pd.Series(own, dtype=float)
                .rolling(max(1, round(self.window * len(own) / max(1, updates))), min_periods=1)
                .mean()
                for run, (own, updates) in losses.items()
            }
            table = pd.DataFrame(smooth).sort_index()
            if len(table):
                found[optimizer] = table.iloc[:: -math.ceil(len(table) / _MOST_POINTS)].iloc[::-1]
        return found, warnings


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


def loss(frame: Frame, store: Store) -> list[Losses]:
    """One panel per workload with completed replicas: the training loss of each optimizer's winner."""
    panels = []
    for part in workloads(frame):
        choices = choose(part, OPTIMIZER)
        found = {str(one.fixed["optimizer"]): curves_of(one.replicas, store) for one in choices}
        runs, best = _best({name: own for name, own in found.items() if own}, part)
        of, unit = about(part).noted(best), loss_unit(part)
        if runs:
            panels.append(losses(of, unit, runs))
    return panels


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


def losses(of: About, unit: str, runs: Runs, window: int | None = None) -> Losses:
    """The panel of some runs, at least one.

    Args:
        of: what is said of it, without seeds and average.
        unit: of the loss.
        runs: by optimizer.
        window: steps of the moving average; None takes a part of the longest run.
    """
    window = window or max(1, max(run.steps for own in runs.values() for run in own) // _WINDOWS)
    of = replace(of, seeds=[len(own) for own in runs.values()])
    return Losses(of.noted(Note("moving_average", steps=window) if window > 1 else None), unit, window, runs)


def curves_of(runs: Iterable[Row], store: Store) -> list[Curve]:
    """The completed ones of some rows of the frame."""

    def digest(key: str) -> str:
        try:
            return hashlib.sha256(store.files(key).metrics.read_bytes()).hexdigest()
        except FileNotFoundError:
            return ""

    completed = [run for run in runs if run["state"] == "completed"]
    return [Curve(run["key"], run["seed"], int(run["steps"]), digest(run["key"])) for run in completed]
