"""What the figures show, as plain values: enough to draw them and to know whether they would change."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from harness.store import Store, curve
from harness.store.points import SEARCH
from results.analysis.metrics import Metric, loss_unit, reported
from results.analysis.select import OPTIMIZER, WORKLOAD, Choice, choose, searched
from results.tables.footnotes import summary

_MOST_POINTS = 400  # of a curve: more cannot be seen and make a PDF heavy
_WINDOWS = 25  # moving averages that fit into a run
_REFERENCE = "muon"


@dataclass(frozen=True)
class Line:
    """One optimizer's validation metric along an axis, at the best of everything else.

    Attributes:
        optimizer: its name.
        points: (x, y), ascending in x.
        chosen: the x of its best setting of all.
        diverged: the x at which every setting diverged.
    """

    optimizer: str
    points: list[tuple[float, float]]
    chosen: float | None
    diverged: list[float]


@dataclass(frozen=True)
class Panel:
    """One workload of `lr_curve` or `p_curve`; `reference` is an optimizer and its level."""

    title: str
    subtitle: str
    metric: str
    higher_is_better: bool
    lines: list[Line]
    reference: tuple[str, float] | None = None


@dataclass(frozen=True)
class Run:
    """One replica's training curve: where it is, and what it holds."""

    key: str
    seed: int
    steps: int
    digest: str


@dataclass(frozen=True)
class LossPanel:
    """One workload of `loss`: each optimizer's winner on fresh seeds, to be smoothed over `window` steps."""

    title: str
    subtitle: str
    unit: str
    window: int
    runs: dict[str, list[Run]]


@dataclass
class Curves:
    """Smoothed training losses by optimizer (rows: steps, columns: seeds), and what was wrong with files."""

    losses: dict[str, pd.DataFrame] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


# --- the metric along an axis ---


def lr_curve(frame: pd.DataFrame, _: Store) -> list[Panel]:
    """The validation metric against lr: per optimizer and lr the best of everything else, p among it."""
    return [_panel(part, "lr") for part in _workloads(frame)]


def p_curve(frame: pd.DataFrame, _: Store) -> list[Panel]:
    """The validation metric against p at each p's best lr, beside Muon's, where p was searched."""
    parts = (part for part in _workloads(frame) if "p" in part and searched(part, ["p"]))
    return [_panel(part, "p") for part in parts]


def _panel(part: pd.DataFrame, axis: str) -> Panel:
    metric = reported(part)[0]
    overall = {str(choice.fixed["optimizer"]): choice for choice in choose(part, OPTIMIZER)}
    lines = [
        _line(own, axis, metric, overall[str(name)])
        for name, own in part[part[axis].notna()].groupby("optimizer", sort=False)
        if axis == "lr" or searched(own, [axis])
    ]
    level = _level(overall.get(_REFERENCE), metric) if axis == "p" else None
    reference = (_REFERENCE, level) if level is not None else None
    return Panel(*_titles(part), metric.label, metric.higher_is_better, lines, reference)


def _line(own: pd.DataFrame, axis: str, metric: Metric, overall: Choice) -> Line:
    choices = sorted(choose(own, (*OPTIMIZER, axis)), key=lambda choice: float(choice.fixed[axis]))
    points = [(float(choice.fixed[axis]), _level(choice, metric)) for choice in choices]
    return Line(
        str(overall.fixed["optimizer"]),
        [(x, y) for x, y in points if y is not None],
        float(overall.winner.value(axis)) if overall.winner is not None else None,
        [float(choice.fixed[axis]) for choice in choices if choice.state == "diverged"],
    )


def _level(choice: Choice | None, metric: Metric) -> float | None:
    """The winner's validation metric as printed, over its search seeds."""
    if choice is None or choice.winner is None:
        return None
    found = summary(choice.winner.runs, "val", metric)
    return found.mean if found else None


# --- training losses ---


def loss(frame: pd.DataFrame, store: Store) -> list[LossPanel]:
    """The training loss of each optimizer's winner on its fresh seeds."""
    panels = []
    for part in _workloads(frame):
        found = {str(choice.fixed["optimizer"]): _runs(choice, store) for choice in choose(part, OPTIMIZER)}
        runs = {name: own for name, own in found.items() if own}
        if runs:
            unit = loss_unit(part)
            panels.append(_loss_panel(*_titles(part), unit, runs))
    return panels


def _loss_panel(title: str, setting: str, unit: str, runs: dict[str, list[Run]]) -> LossPanel:
    window = max(1, max(run.steps for own in runs.values() for run in own) // _WINDOWS)
    seeds = "-".join(map(str, sorted({len(own) for own in runs.values()})))
    smoothed = f", {window}-step moving average" if window > 1 else ""
    how = f"mean and range of {seeds} seeds{smoothed}"
    return LossPanel(title, "\n".join(filter(None, [setting, how])), unit, window, runs)


def _runs(choice: Choice, store: Store) -> list[Run]:
    return [
        Run(run["key"], run["seed"], int(run["steps"]), _file_digest(store, run["key"]))
        for run in choice.replicas
        if run["state"] == "completed"
    ]


def _file_digest(store: Store, key: str) -> str:
    try:
        return hashlib.sha256(store.files(key).metrics.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def read_curves(panel: LossPanel, store: Store) -> Curves:
    """The curves of a panel, smoothed by a moving average over the last `panel.window` steps."""
    curves = Curves()
    for optimizer, runs in panel.runs.items():
        own = {}
        for run in runs:
            losses = _losses(store, run.key)
            if len(losses) < run.steps:
                curves.warnings.append(
                    f"The curve of run {run.key} ({optimizer}, seed {run.seed}) is damaged: {len(losses)} of "
                    f"its {run.steps} steps can be read, and the figure is drawn from those."
                )
            own[run.seed] = pd.Series(losses, dtype=float).rolling(panel.window, min_periods=1).mean()
        table = pd.DataFrame(own).sort_index()
        if len(table):
            every = math.ceil(len(table) / _MOST_POINTS)
            curves.losses[optimizer] = table.iloc[::-1].iloc[::every].iloc[::-1]  # keeps the last step
    return curves


def _losses(store: Store, key: str) -> Mapping[int, float]:
    rows: Iterable[dict[str, Any]] = curve.read(store.files(key).metrics)
    pairs = ((row["step"], row.get("loss")) for row in rows)
    return {step: loss for step, loss in pairs if isinstance(loss, int | float) and math.isfinite(loss)}


# --- words ---


def _workloads(frame: pd.DataFrame) -> list[pd.DataFrame]:
    return [part for _, part in frame.groupby(list(WORKLOAD), sort=False)]


def _titles(part: pd.DataFrame) -> tuple[str, str]:
    """The workload, and below it what is fixed and how much is still to come."""
    task, model, setting = part[list(WORKLOAD)].iloc[0]
    open_runs = part[(part["stage"] == SEARCH) & part["state"].isin(["waiting", "running"])]["key"].nunique()
    return f"{task}, {model}", ", ".join(
        filter(None, [setting, f"{open_runs} runs to come" if open_runs else ""])
    )
