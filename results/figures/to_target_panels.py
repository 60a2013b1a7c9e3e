"""The figure `to_target`: how many steps, and how much time, each optimizer needs to be as good as Muon.

The target is the worst validation metric with which a reported run of Muon ends, so that each of them reaches
it. Without Muon it is that of all reported runs. A run of fixed length lowers its learning rate towards its
end: a shorter run might reach the target earlier.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.store import Store
from results.compare.select import Row
from results.compare.summary import finite_values
from results.compare.to_target import Evaluation, evaluations, seconds_to, steps_to
from results.compare.winners import Winner, chosen_among, over_seeds, span, winners
from results.figures.panels import titles, workloads
from results.figures.row_panel import Dot, OptimizerRow, RowPanel
from results.figures.style import display_name
from results.figures.units import SECONDS, unit
from results.frames.metrics import Metric, reported
from results.frames.provenance import timings

_REFERENCE = "muon"
_FEWEST = 3  # evaluations of a run; with fewer, a line between two of them says nothing
_ENDED = ("completed", "diverged", "pruned")  # states of runs whose curve does not go on


@dataclass(frozen=True)
class _Reach:
    """When a run reached the target: `steps`; None: never, and `seen` is how far it went."""

    run: Row
    steps: float | None
    seen: float


def to_target(frame: pd.DataFrame, store: Store) -> list[RowPanel]:
    """Two panels per workload, steps and time; no times if the runs are from several kinds of hardware."""
    return [panel for part in workloads(frame) for panel in _panels(part, store)]


def _panels(part: pd.DataFrame, store: Store) -> list[RowPanel]:
    metric, found = reported(part)[0], winners(part)
    goal = _target(found, metric)
    if goal is None:
        return []
    runs = [run for one in found for run in one.runs if run["state"] in _ENDED]
    curves = {run["key"]: evaluations(store.files(run["key"]).metrics, f"val_{metric.name}") for run in runs}
    if max(map(len, curves.values()), default=0) < _FEWEST:
        return []
    target, whose = goal
    reached = {
        one.optimizer: [
            _reach(run, curves[run["key"]], target, metric) for run in one.runs if run["key"] in curves
        ]
        for one in found
    }
    title, setting = titles(part)
    aim = f"to validation {metric.label} {metric.scale * target:.{metric.digits}f}, {whose}"
    hardware = timings(runs)
    mixed = f"no times: the runs are from {hardware} kinds of hardware" if hardware > 1 else ""
    how = _how([len(own) for own in reached.values() if own], list(curves.values()), found)
    subtitle = "\n".join(filter(None, [setting, aim, how, mixed]))
    panels = [_panel(title, subtitle, found, reached, None)]
    return panels if mixed else [*panels, _panel(title, subtitle, found, reached, _time_unit(reached))]


def _target(found: Sequence[Winner], metric: Metric) -> tuple[float, str] | None:
    """The target in the record's unit, and whose it is; None without any value."""
    worst = min if metric.higher_is_better else max
    for one in found:
        values = finite_values(one.runs, f"val_{metric.name}")
        if one.choice.winner is not None and one.choice.winner.value("rule") == _REFERENCE and values:
            return worst(values), f"{display_name(one.optimizer)}'s worst run"
    everyone = [value for one in found for value in finite_values(one.runs, f"val_{metric.name}")]
    return (worst(everyone), "the worst run") if everyone else None


def _reach(run: Row, curve: Sequence[Evaluation], target: float, metric: Metric) -> _Reach:
    return _Reach(run, steps_to(curve, target, higher_is_better=metric.higher_is_better), float(run["steps"]))


def _how(sizes: Sequence[int], curves: Sequence[Sequence[Evaluation]], found: Sequence[Winner]) -> str:
    """ "3 seeds, best of 6 settings, 10 evaluations"."""
    counts = [len(curve) for curve in curves if curve]
    parts = [over_seeds(sizes), chosen_among(found), f"{span(counts)} evaluations"]
    return ", ".join(filter(None, parts))


def _time_unit(reached: Mapping[str, Sequence[_Reach]]) -> tuple[str, float]:
    found = [seconds_to(one.run, one.steps or one.seen) for own in reached.values() for one in own]
    return unit(SECONDS, min((seconds for seconds in found if seconds), default=0.0))


def _panel(
    title: str,
    subtitle: str,
    found: Sequence[Winner],
    reached: Mapping[str, Sequence[_Reach]],
    time: tuple[str, float] | None,
) -> RowPanel:
    """A panel of steps, or of times in a unit."""
    entries = [_entry(one, reached[one.optimizer], time) for one in found]
    entries.sort(key=_order)
    label = "steps to target" if time is None else f"training time to target ({time[0]})"
    return RowPanel(
        title,
        subtitle,
        label,
        entries,
        mark="mean of those that reach it",
        dot="one run",
        missed="ended without reaching it",
        heading="mean",
    )


def _entry(one: Winner, reached: Sequence[_Reach], time: tuple[str, float] | None) -> OptimizerRow:
    made = [_dot(own, time) for own in reached]
    dots = [dot for dot in made if dot is not None]
    if not dots:
        return OptimizerRow(one.optimizer, text=one.state)
    values = [dot.x for dot in dots if dot.reached]
    mean = statistics.fmean(values) if values else None
    text = "" if mean is None else f"{mean:.0f}" if mean >= 100 else f"{mean:.3g}"
    if len(values) < len(one.runs):
        text += f" ({len(values)}/{len(one.runs)})"
    return OptimizerRow(one.optimizer, mean, dots, text=text.strip(), keys=tuple(dot.key for dot in dots))


def _dot(reach: _Reach, time: tuple[str, float] | None) -> Dot | None:
    steps = reach.seen if reach.steps is None else reach.steps
    value = steps if time is None else seconds_to(reach.run, steps)
    if value is None:
        return None
    size = 1.0 if time is None else time[1]
    return Dot(value / size, int(reach.run["seed"]), str(reach.run["key"]), reach.steps is not None)


def _order(one: OptimizerRow) -> tuple[int, bool, float]:
    """By the number of runs that miss the target, then by the mean; rows without any run come last."""
    missed = sum(not dot.reached for dot in one.dots)
    return (missed if one.dots else 10**6, one.mark is None, one.mark or 0.0)
