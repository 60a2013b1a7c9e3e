"""What the figures of a validation metric show, as plain values: enough to draw and to see a change."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from harness.store import Store
from harness.store.points import SEARCH
from results.analysis.metrics import Metric, reported
from results.analysis.select import OPTIMIZER, WORKLOAD, Choice, choose, searched
from results.analysis.summary import metric_summary

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


def lr_curve(frame: pd.DataFrame, _: Store) -> list[Panel]:
    """The validation metric against lr: per optimizer and lr the best of everything else, p among it."""
    return [_panel(part, "lr") for part in workloads(frame)]


def p_curve(frame: pd.DataFrame, _: Store) -> list[Panel]:
    """The validation metric against p at each p's best lr, beside Muon's, where p was searched."""
    parts = (part for part in workloads(frame) if "p" in part and searched(part, ["p"]))
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
    return Panel(*titles(part), metric.label, metric.higher_is_better, lines, reference)


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
    found = metric_summary(choice.winner.runs, "val", metric)
    return found.mean if found else None


# --- one workload ---


def workloads(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """The frame in parts, one per workload."""
    return [part for _, part in frame.groupby(list(WORKLOAD), sort=False)]


def titles(part: pd.DataFrame) -> tuple[str, str]:
    """The workload, and below it what is fixed and how much is still to come."""
    task, model, setting = part[list(WORKLOAD)].iloc[0]
    open_runs = part[(part["stage"] == SEARCH) & part["state"].isin(["waiting", "running"])]["key"].nunique()
    return f"{task}, {model}", ", ".join(
        filter(None, [setting, f"{open_runs} runs to come" if open_runs else ""])
    )
