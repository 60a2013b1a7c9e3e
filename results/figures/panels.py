"""The data of the figures `lr_curve` and `p_curve` of any sweeps, and what is said above a panel."""

from __future__ import annotations

import pandas as pd

from harness.display import counted
from harness.store import Store
from harness.store.points import SEARCH
from results.compare.select import OPTIMIZER, WORKLOAD, Choice, choose, searched
from results.compare.summary import metric_summary
from results.figures.kinds import CurvePanel, Level, Point, Series
from results.figures.style import display_name
from results.frames.metrics import Metric, reported

_REFERENCE = "muon"
AXES = {"lr": "peak learning rate", "p": "p (power of the singular values)"}


def lr_curve(frame: pd.DataFrame, _: Store) -> list[CurvePanel]:
    """The validation metric against lr: per optimizer and lr the best of everything else, p among it."""
    parts = (part for part in workloads(frame) if "lr" in part and part["lr"].notna().any())
    return [_panel(part, "lr") for part in parts]


def p_curve(frame: pd.DataFrame, _: Store) -> list[CurvePanel]:
    """The validation metric against p at each p's best lr, beside Muon's, where p was searched."""
    parts = (part for part in workloads(frame) if "p" in part and searched(part, ["p"]))
    return [_panel(part, "p") for part in parts]


def _panel(part: pd.DataFrame, axis: str) -> CurvePanel:
    metric = reported(part)[0]
    overall = {str(choice.fixed["optimizer"]): choice for choice in choose(part, OPTIMIZER)}
    series = [
        _series(own, axis, metric, overall[str(name)])
        for name, own in part[part[axis].notna()].groupby("optimizer", sort=False)
        if axis == "lr" or searched(own, [axis])
    ]
    return CurvePanel(
        *titles(part),
        x_label=AXES[axis],
        y_label=f"validation {metric.label}",
        series=series,
        levels=_levels(overall.get(_REFERENCE), metric) if axis == "p" else [],
        higher_is_better=metric.higher_is_better,
        x_scale="tried" if axis == "lr" else "values",
    )


def _series(own: pd.DataFrame, axis: str, metric: Metric, overall: Choice) -> Series:
    choices = sorted(choose(own, (*OPTIMIZER, axis)), key=lambda choice: float(choice.fixed[axis]))
    points = [_point(choice, float(choice.fixed[axis]), metric) for choice in choices]
    return Series(
        str(overall.fixed["optimizer"]),
        [point for point in points if point is not None],
        chosen=float(overall.winner.value(axis)) if overall.winner is not None else None,
        diverged=[float(choice.fixed[axis]) for choice in choices if choice.state == "diverged"],
    )


def _point(choice: Choice, x: float, metric: Metric) -> Point | None:
    """The winner's validation metric as printed, over its search seeds."""
    if choice.winner is None:
        return None
    found = metric_summary(choice.winner.runs, "val", metric)
    keys = tuple(str(run["key"]) for run in choice.winner.runs)
    return Point(x, found.mean, found.std, found.n, keys) if found else None


def _levels(choice: Choice | None, metric: Metric) -> list[Level]:
    """The best of an optimizer that has no such axis."""
    point = _point(choice, 0.0, metric) if choice else None
    label = f"{display_name(_REFERENCE)}, best lr"
    return [Level(_REFERENCE, label, point.y, keys=point.keys)] if point else []


# --- one workload ---


def workloads(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """The frame in parts, one per workload."""
    return [part for _, part in frame.groupby(list(WORKLOAD), sort=False)]


def titles(part: pd.DataFrame) -> tuple[str, str]:
    """The workload, and below it what is fixed and how much is still to come."""
    task, model, setting = part[list(WORKLOAD)].iloc[0]
    open_runs = part[(part["stage"] == SEARCH) & part["state"].isin(["waiting", "running"])]["key"].nunique()
    return f"{task}, {model}", ", ".join(
        filter(None, [setting, f"{counted(open_runs, 'run')} to come" if open_runs else ""])
    )
