"""The figure `lr_width`: in which range of learning rates each optimizer stays close to its best.

All other settings are as chosen: an optimizer whose p was searched as well must not look wider for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from harness.choice.rates import Width
from harness.choice.rates import rate_width as width_of
from harness.store import Store
from results.compare.summary import metric_summary
from results.compare.winners import Winner, along, winners
from results.figures.kinds import PUBLISHED, CurvePanel, Series
from results.figures.panels import AXES, titles, workloads
from results.figures.row_panel import OptimizerRow, RowPanel, Span
from results.frames.metrics import Metric, reported

TOLERANCES = (0.05, 0.01)  # shares of the best value, the wider range first
_SHARES = " / ".join(f"{share:.0%}" for share in reversed(TOLERANCES))
_OCTAVES = f"octaves within {_SHARES} of the best"
_HOW = f"{_OCTAVES} validation metric, all other settings as chosen"


def lr_width(frame: pd.DataFrame, _: Store) -> list[RowPanel]:
    """One panel per workload in which an optimizer has two rates or more."""
    return _panels([_panel(part) for part in workloads(frame)])


def published_widths(curves: Sequence[CurvePanel]) -> list[RowPanel]:
    """The same of published numbers, from the panels of `lr_curve`."""
    return _panels([_published(curve) for curve in curves])


def _panels(found: Sequence[RowPanel]) -> list[RowPanel]:
    return [panel for panel in found if any(one.spans for one in panel.entries)]


def _panel(part: pd.DataFrame) -> RowPanel:
    metric = reported(part)[0]
    entries = [_entry(part, one, metric) for one in winners(part) if "lr" in part]
    title, setting = titles(part)
    return _rows(title, "\n".join(filter(None, [setting, _HOW])), entries)


def _rows(title: str, subtitle: str, entries: list[OptimizerRow]) -> RowPanel:
    entries = sorted(entries, key=_width, reverse=True)
    return RowPanel(
        title, subtitle, AXES["lr"], entries, mark="chosen learning rate", heading="octaves", x_log=True
    )


def _entry(part: pd.DataFrame, one: Winner, metric: Metric) -> OptimizerRow:
    if one.choice.winner is None:
        return OptimizerRow(one.optimizer, text=one.choice.state)
    found = along(part, one.choice, "lr")
    means = {float(own.value("lr")): metric_summary(own.runs, "val", metric) for own in found}
    levels = {lr: mean.mean for lr, mean in means.items() if mean is not None}
    diverged = [float(own.value("lr")) for own in found if own.state == "diverged"]
    keys = tuple(str(run["key"]) for own in found for run in own.runs)
    best = float(one.choice.winner.value("lr"))
    return _with_spans(OptimizerRow(one.optimizer, best, keys=keys), levels, diverged)


def _published(curve: CurvePanel) -> RowPanel:
    entries = [_best_point(one, curve.higher_is_better) for one in curve.series if one.source == PUBLISHED]
    return _rows(curve.title, "\n".join(filter(None, [curve.subtitle, f"{_OCTAVES} value"])), entries)


def _best_point(one: Series, higher_is_better: bool) -> OptimizerRow:
    levels = {point.x: point.y for point in one.points}
    best = (max if higher_is_better else min)(levels, key=lambda lr: levels[lr])
    return _with_spans(OptimizerRow(one.optimizer, best, source=PUBLISHED), levels, one.diverged)


def _with_spans(row: OptimizerRow, levels: Mapping[float, float], diverged: Sequence[float]) -> OptimizerRow:
    """The row with its ranges; without any if only one rate was tried."""
    if row.mark is None or row.mark not in levels or len({*levels, *diverged}) < 2:
        return replace(row, text="one rate only")
    found = {share: width_of(levels, row.mark, share, diverged) for share in TOLERANCES}
    spans = {
        f"within {share:.0%} of its best": Span(width.low, width.high, width.open_low, width.open_high)
        for share, width in found.items()
    }
    return replace(row, spans=spans, text=" / ".join(_octaves(width) for width in reversed(found.values())))


def _octaves(width: Width) -> str:
    """ " ">2.0" if nothing worse was tried beyond an end."""
    return f"{'>' if width.open_low or width.open_high else ''}{width.octaves:.1f}"


def _width(one: OptimizerRow) -> tuple[float, ...]:
    """The narrower range first; rows without any come last."""
    return tuple(span.high / span.low for span in reversed(one.spans.values()))
