"""Draws curves into matplotlib axes: values against a learning rate, p, a step or a rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from results.figures.kinds import PUBLISHED, CurvePanel, Level, Point, Series
from results.figures.style import (
    CROSS,
    DASHED,
    DOTTED,
    GREY,
    RING,
    display_name,
    label_log,
    optimizer_style,
    shaded,
)

_MOST_VALUES = 6  # more values than these do not fit as labels of an axis
_SHADES, _DASHES = (0.0, 0.4, 0.8), ("-", DASHED, DOTTED)  # of several series of one optimizer
_MANY_TIMES = 8  # if the ratio of largest to smallest value is greater, the axis is logarithmic


def draw_curves(ax: Any, panel: CurvePanel) -> None:
    """Draw a `CurvePanel`."""
    right = ax.twinx() if panel.right_label else ax
    if right is not ax:
        right.set_ylabel(panel.right_label)
        right.grid(visible=False)
        right.spines[["top", "left"]].set_visible(False)
    for number, one in enumerate(panel.series):
        own = right if one.right else ax
        _draw_series(own, panel, one)
        _mark(own, panel, number)
    for level in panel.levels:
        grey = level.right or not level.optimizer
        colour = GREY if grey else optimizer_style(level.optimizer)["color"]
        drawn = {"color": colour, "linestyle": DOTTED if level.right else DASHED, "zorder": 1}
        own = right if level.right else ax
        own.axhline(level.y, label=level_label(level), linewidth=0.8 if grey else 1.1, **drawn)
    for own in {ax, right}:
        own.margins(0.08 if panel.marks else 0.02)
    _scale_x(ax, panel)
    _scale_y(ax, panel)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)


def _style(one: Series) -> dict[str, Any]:
    """Colour, marker and dashes; open markers and thin lines for published values."""
    style = optimizer_style(one.optimizer)
    shade, dashes = 0.0, style["linestyle"]
    if one.variant is not None:
        shade, dashes = _SHADES[one.variant % len(_SHADES)], _DASHES[one.variant % len(_DASHES)]
    colour = GREY if one.right else shaded(style["color"], shade)
    style |= {"color": colour, "linestyle": DOTTED if one.right else dashes}
    if one.source == PUBLISHED:
        return style | {"markerfacecolor": "white", "markeredgecolor": colour, "linewidth": 0.8}
    return style | {"markeredgecolor": "white", "linewidth": 1.4}


def label(one: Series) -> str:
    """Of a series in the legend."""
    name = one.label or display_name(one.optimizer)
    return f"{name}, published" if one.source == PUBLISHED else name


def level_label(level: Level) -> str:
    """Of a level in the legend."""
    return f"{level.label}, published" if level.source == PUBLISHED else level.label


def _draw_series(ax: Any, panel: CurvePanel, one: Series) -> None:
    style = _style(one) | {"label": label(one)}
    x, y = [point.x for point in one.points], [point.y for point in one.points]
    if not panel.marks:
        ax.plot(x, y, **style | {"marker": None})
    elif any(point.sd for point in one.points):
        bars = {"elinewidth": 1, "capsize": 2, "yerr": [point.sd or 0.0 for point in one.points]}
        ax.errorbar(x, y, markersize=5, markeredgewidth=0.6, **style, **bars)
    else:
        ax.plot(x, y, markersize=5, markeredgewidth=1 if one.source == PUBLISHED else 0.6, **style)
    _draw_band(ax, one.points, style["color"])


def _draw_band(ax: Any, points: Sequence[Point], colour: Any) -> None:
    known = [(point.x, point.low, point.high) for point in points if point.low is not None]
    if known:
        ax.fill_between(*zip(*known, strict=True), color=colour, alpha=0.2, linewidth=0)


def _mark(ax: Any, panel: CurvePanel, number: int) -> None:
    """Draw a ring at the chosen point, and a cross at the edge of bad values where all settings diverged."""
    one = panel.series[number]
    colour = _style(one)["color"]
    for point in one.points:
        if point.x == one.chosen:
            ax.plot([point.x], [point.y], **RING, markeredgecolor=colour)
    before = panel.series[:number]  # their crosses at the same x must stay visible
    for x in one.diverged:
        depth = 0.03 + 0.06 * sum(x in other.diverged for other in before)
        place = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        y = depth if panel.higher_is_better else 1 - depth
        ax.plot([x], [y], **CROSS, **place, markeredgecolor=colour)


def explain_marks(ax: Any, panels: Sequence[Any]) -> None:
    """Add legend entries for ring and cross. They are grey, because each optimizer has its own colour."""
    series = [one for panel in panels if isinstance(panel, CurvePanel) for one in panel.series]
    if any(one.chosen is not None for one in series):
        ax.plot([], [], **RING, markeredgecolor=GREY, label="chosen")
    if any(one.diverged for one in series):
        ax.plot([], [], **CROSS, markeredgecolor=GREY, label="diverged")


# --- axes ---


def _scale_x(ax: Any, panel: CurvePanel) -> None:
    tried = sorted({x for one in panel.series for x in (*one.diverged, *(point.x for point in one.points))})
    if panel.x_scale == "tried":
        ax.set_xscale("log")
        if len(tried) == 1:  # a logarithmic axis finds no limits around one value
            ax.set_xlim(tried[0] / 2, tried[0] * 2)
        _label_tried(ax, tried)
    elif panel.x_scale == "values":
        from matplotlib.ticker import StrMethodFormatter

        ax.set_xticks(tried)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _label_tried(ax: Any, tried: list[float]) -> None:
    """Label the values that were tried, if they are few, far apart and short (not sampled ones)."""
    label_log(ax.xaxis)
    if not 1 < len(tried) <= _MOST_VALUES or any(len(f"{value:g}") > 6 for value in tried):
        return
    apart = min(high / low for low, high in pairwise(tried))
    if math.log(apart) / math.log(tried[-1] / tried[0]) > 0.9 / _MOST_VALUES:
        ax.set_xticks(tried)
        ax.set_xticks([], minor=True)


def _scale_y(ax: Any, panel: CurvePanel) -> None:
    values = [point.y for one in panel.series if not one.right for point in one.points]
    ratio_is_large = not panel.higher_is_better and values and 0 < _MANY_TIMES * min(values) < max(values)
    if panel.y_log if panel.y_log is not None else ratio_is_large:
        ax.set_yscale("log")
        label_log(ax.yaxis)
    if panel.y_limits is not None:
        ax.set_ylim(*panel.y_limits)
        if ax.get_yscale() == "log":
            label_log(ax.yaxis)
