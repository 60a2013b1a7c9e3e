"""Draws a panel of the figure `pareto` into matplotlib axes. matplotlib is imported when needed."""

from __future__ import annotations

from typing import Any

from results.figures.log_ticks import set_log_ticks
from results.figures.pareto_panels import CostPanel, CostPoint
from results.figures.style import DASHED, GREY, display_name, optimizer_style

_MANY_TIMES = 4  # if the ratio of largest to smallest cost is greater, the axis is logarithmic


def draw_pareto(ax: Any, panel: CostPanel) -> None:
    """A mark with bars for each optimizer, its name beside it, and the Pareto front."""
    shown = [point for point in panel.points if not _is_beyond(panel, point)]
    for point in shown:
        marks = {"markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.5}
        bars = {"xerr": point.cost.std, "yerr": point.metric.std, "elinewidth": 0.7}
        ax.errorbar(point.cost.mean, point.metric.mean, zorder=3, **_style(point), **marks, **bars)
    _join(ax, shown)
    stairs = _stairs(panel)
    ax.plot(*zip(*stairs, strict=True), color=GREY, linestyle=DASHED, linewidth=1, label="Pareto front")
    ax.margins(0.12)
    if _is_wide([point.cost.mean for point in panel.points]):
        ax.set_xscale("log")
        set_log_ticks(ax)
    ends = [_draw_beyond(ax, panel, point) for point in panel.points if _is_beyond(panel, point)]
    if ends:
        ax.plot([], [], "o", color=GREY, markerfacecolor="white", markersize=4.5, label="beyond the axis")
    ax.set_xlabel(panel.axis)
    ax.set_ylabel(panel.metric)
    first = [*panel.front, *(point for point in shown if point not in panel.front)]
    labels = [(point, point.metric.mean, point.name) for point in first]
    _label(ax, [*labels, *ends], stairs)


def _style(point: CostPoint) -> dict[str, Any]:
    style = optimizer_style(point.optimizer)
    return style | {"linestyle": "none", "label": display_name(point.optimizer)}


def _join(ax: Any, points: list[CostPoint]) -> None:
    """Thin lines between the points of one optimizer."""
    for optimizer in dict.fromkeys(point.optimizer for point in points):
        own = [point for point in points if point.optimizer == optimizer]
        x, y = [point.cost.mean for point in own], [point.metric.mean for point in own]
        ax.plot(x, y, color=optimizer_style(optimizer)["color"], linewidth=0.6, alpha=0.7, zorder=2)


def _is_beyond(panel: CostPanel, point: CostPoint) -> bool:
    """Whether a point is worse than the axis shows."""
    if panel.worst_shown is None:
        return False
    worse, limit = point.metric.mean, panel.worst_shown
    return worse < limit if panel.higher_is_better else worse > limit


def _draw_beyond(ax: Any, panel: CostPanel, point: CostPoint) -> tuple[CostPoint, float, str]:
    """An open mark at the bad end of the axis; returns its label, which has the value."""
    low, high = ax.get_ylim()
    ax.set_ylim(low, high)
    end = low if panel.higher_is_better else high
    marks = {"markersize": 4.5, "markerfacecolor": "white", "clip_on": False}
    ax.plot([point.cost.mean], [end], **_style(point), **marks, zorder=3)
    return point, end, f"{point.name}: {point.metric.mean:.4g}"


def _stairs(panel: CostPanel) -> list[tuple[float, float]]:
    """The front: between two of its points the cheaper one is what can be had."""
    found: list[tuple[float, float]] = []
    for point in panel.front:
        if found:
            found.append((point.cost.mean, found[-1][1]))
        found.append((point.cost.mean, point.metric.mean))
    return found


def _is_wide(values: list[float]) -> bool:
    return min(values) > 0 and max(values) > _MANY_TIMES * min(values)


def _label(ax: Any, points: list[tuple[CostPoint, float, str]], line: list[tuple[float, float]]) -> None:
    """Names beside the points, the first one at the best place."""
    from results.figures.point_labels import Label, PointLabels

    labels = [
        Label(text, point.cost.mean, y, optimizer_style(point.optimizer)["color"])
        for point, y, text in points
    ]
    ax.add_artist(PointLabels(labels, line))
