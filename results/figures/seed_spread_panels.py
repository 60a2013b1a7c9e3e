"""The figure `seed_spread`: every reported run of each optimizer's best setting, mean and 95 % interval."""

from __future__ import annotations

import pandas as pd

from harness.store import Store
from results.compare.stats import summarize
from results.compare.summary import finite_values
from results.compare.winners import Winner, chosen_among, over_seeds, winners
from results.figures.focus import worst_shown
from results.figures.panels import titles, workloads
from results.figures.row_panel import Dot, OptimizerRow, RowPanel, Span
from results.frames.metrics import Metric, reported, within

_INTERVAL = "95 % interval of the mean"


def seed_spread(frame: pd.DataFrame, _: Store) -> list[RowPanel]:
    """One panel per workload that has a reported run."""
    panels = (_panel(part) for part in workloads(frame))
    return [panel for panel in panels if any(one.dots for one in panel.entries)]


def _panel(part: pd.DataFrame) -> RowPanel:
    metric, found = reported(part)[0], winners(part)
    entries = [_entry(one, metric) for one in found]
    sign = -1 if metric.higher_is_better else 1
    entries.sort(key=lambda one: (one.mark is None, sign * (one.mark or 0)))
    title, setting = titles(part)
    seeds = [len(one.dots) for one in entries if one.dots]
    how = [over_seeds(seeds) if seeds else "", chosen_among(found)]
    subtitle = "\n".join(filter(None, [setting, ", ".join(filter(None, how))]))
    means = [one.mark for one in entries if one.mark is not None]
    limit = worst_shown(means, higher_is_better=metric.higher_is_better)
    return RowPanel(
        title,
        subtitle,
        f"test {metric.label}",
        entries,
        mark="mean",
        dot="one run",
        heading="mean ± sd",
        worst_shown=limit,
    )


def _entry(one: Winner, metric: Metric) -> OptimizerRow:
    column = f"test_{metric.name}"
    dots = [
        Dot(metric.scale * value, int(run["seed"]), str(run["key"]))
        for run in one.runs
        for value in finite_values([run], column)
    ]
    if not dots:
        return OptimizerRow(one.optimizer, text=_reason(one))
    found = summarize([dot.x for dot in dots])
    interval = found.interval
    spans = {_INTERVAL: Span(*within(metric.column, interval))} if interval else {}
    spread = f" ± {found.std:.{metric.digits}f}" if found.std is not None else ""
    rest = f" ({len(dots)}/{len(one.runs)})" if len(dots) < len(one.runs) else ""
    text = f"{found.mean:.{metric.digits}f}{spread}{rest}"
    return OptimizerRow(one.optimizer, found.mean, dots, spans, text, keys=tuple(dot.key for dot in dots))


def _reason(one: Winner) -> str:
    """Why a winner has no value: the states of its runs."""
    return ", ".join(dict.fromkeys(str(run["state"]) for run in one.runs)) or one.state
