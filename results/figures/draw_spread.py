"""Draws a `SpreadPanel` into matplotlib axes. matplotlib is imported when needed."""

from __future__ import annotations

from typing import Any

from results.figures.log_ticks import set_log_ticks
from results.figures.style import DASHED, GREY
from results.figures.track3_panels import SpreadPanel, SpreadPoint

_COLOUR = "#0173b2"  # the first one of seaborn's colour-blind palette
_MARK = {"marker": "o", "markersize": 4, "markeredgewidth": 0.9, "linestyle": "none", "color": _COLOUR}
_BEYOND = _MARK | {"marker": "^", "clip_on": False}
_LABEL = 5.5  # points; there are many


def draw_spread(ax: Any, panel: SpreadPanel) -> None:
    """A mark with its interval for each result, and the standard deviation of all beside the assumed one."""
    near = [point for point in panel.points if not _is_beyond(panel, point)]
    far = [point for point in panel.points if _is_beyond(panel, point)]
    ax.set_xscale("log")
    for point in near:
        _draw_point(ax, point, point.y, _MARK)
    ax.margins(0.04)
    ax.set_ylim(ax.get_ylim())
    top = ax.get_ylim()[1]
    for point in far:
        _draw_point(ax, point, top, _BEYOND)
    _draw_levels(ax, panel)
    _explain(ax, panel)
    set_log_ticks(ax)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    _label(ax, [(point, point.y, point.name) for point in near], far, top)


def _is_beyond(panel: SpreadPanel, point: SpreadPoint) -> bool:
    return panel.worst_shown is not None and point.y > panel.worst_shown


def _draw_point(ax: Any, point: SpreadPoint, y: float, mark: dict[str, Any]) -> None:
    """Filled if the mean is shown to be below 3.28, else open; the interval is a thin line."""
    ax.plot(
        [point.spread.low, point.spread.high], [y, y], color="0.75", linewidth=0.6, zorder=2, clip_on=False
    )
    ax.plot([point.spread.sd], [y], **mark | _fill(point.is_shown), zorder=3)


def _fill(is_shown: bool) -> dict[str, str]:
    return {} if is_shown else {"markerfacecolor": "white"}


def _draw_levels(ax: Any, panel: SpreadPanel) -> None:
    shared = panel.pooled
    ax.axvspan(
        shared.low,
        shared.high,
        color="0.85",
        linewidth=0,
        zorder=1,
        label="pooled over the results, 95 % interval",
    )
    ax.axvline(
        panel.assumed,
        color=GREY,
        linestyle=DASHED,
        linewidth=1,
        zorder=1,
        label=f"assumed by the rules ({panel.assumed:g})",
    )


def _explain(ax: Any, panel: SpreadPanel) -> None:
    """Entries of the legend for what is drawn."""
    for is_shown, words in ((True, "mean shown to be below 3.28"), (False, "not shown to be below 3.28")):
        if any(point.is_shown == is_shown for point in panel.points):
            ax.plot([], [], **_MARK | _fill(is_shown), label=words)
    ax.plot([], [], color="0.75", linewidth=0.6, label="95 % interval of one result")
    if any(_is_beyond(panel, point) for point in panel.points):
        ax.plot([], [], **_MARK | {"marker": "^"}, label="beyond the axis")


def _label(ax: Any, near: list[tuple[SpreadPoint, float, str]], far: list[SpreadPoint], top: float) -> None:
    from results.figures.point_labels import Label, PointLabels

    ends = [(point, top, f"{point.name}: {point.y:.5g}") for point in far]
    labels = [Label(text, point.spread.sd, y, _COLOUR) for point, y, text in [*ends, *near]]
    ax.add_artist(PointLabels(labels, size=_LABEL))
