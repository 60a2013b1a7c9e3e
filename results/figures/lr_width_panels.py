"""The figure `lr_width`: in which range of learning rates each optimizer stays close to its best.

It is made of the panels of `lr_curve`, so both show the same values.
"""

from __future__ import annotations

import pandas as pd

from harness.store import Store
from results.analysis.lr_width import lr_width as width_of
from results.figures.kinds import CurvePanel, Series
from results.figures.panels import lr_curve
from results.figures.row_panel import OptimizerRow, RowPanel, Span

TOLERANCES = (0.05, 0.01)  # shares of the best value, the wider range first


def lr_width(frame: pd.DataFrame, store: Store) -> list[RowPanel]:
    """One panel per workload in which an optimizer has two rates or more."""
    found = (_panel(curve) for curve in lr_curve(frame, store))
    return [panel for panel in found if any(_is_wide(one) for one in panel.entries)]


def _panel(curve: CurvePanel) -> RowPanel:
    entries = [_entry(one) for one in curve.series if one.points or one.diverged]
    entries.sort(key=_width, reverse=True)
    how = "straight lines between the rates that were tried"
    subtitle = "\n".join(filter(None, [curve.subtitle, how]))
    heading = "octaves within " + " / ".join(f"{share:.0%}" for share in reversed(TOLERANCES))
    words = {"mark": "chosen learning rate", "heading": heading}
    return RowPanel(curve.title, subtitle, "peak learning rate", entries, **words, x_log=True)


def _entry(one: Series) -> OptimizerRow:
    levels = {point.x: point.y for point in one.points}
    if one.chosen not in levels:
        return OptimizerRow(one.optimizer, text="diverged" if one.diverged else "no value", source=one.source)
    found = {share: width_of(levels, one.chosen, share, one.diverged) for share in TOLERANCES}
    spans = {
        _name(share): Span(width.low, width.high, width.open_low, width.open_high)
        for share, width in found.items()
    }
    text = " / ".join(_octaves(spans[_name(share)], found[share].octaves) for share in reversed(TOLERANCES))
    keys = tuple(key for point in one.points for key in point.keys)
    return OptimizerRow(one.optimizer, one.chosen, [], spans, text, one.source, keys)


def _name(share: float) -> str:
    return f"within {share:.0%} of its best"


def _octaves(span: Span, octaves: float) -> str:
    """ ">2.0" if nothing worse was tried at an end."""
    return f"{'>' if span.open_low or span.open_high else ''}{octaves:.1f}"


def _width(one: OptimizerRow) -> tuple[float, ...]:
    """The narrower range first; rows without any come last."""
    spans = [one.spans[name] for share in reversed(TOLERANCES) if (name := _name(share)) in one.spans]
    return tuple(span.high / span.low for span in spans)


def _is_wide(one: OptimizerRow) -> bool:
    return any(span.high > span.low or not (span.open_low and span.open_high) for span in one.spans.values())
