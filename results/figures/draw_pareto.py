"""Draws a panel of the figure `pareto` into matplotlib axes. matplotlib is imported when needed."""

from __future__ import annotations

from typing import Any

from results.figures.pareto_panels import CostPanel
from results.figures.style import DASHED, GREY, display_name, label_log, optimizer_style

_MANY_TIMES = 4  # if the ratio of largest to smallest value is greater, the axis is logarithmic


def draw_pareto(ax: Any, panel: CostPanel) -> None:
    """A mark with bars for each optimizer, its name beside it, and the Pareto front."""
    for point in panel.points:
        style = optimizer_style(point.optimizer)
        style |= {"linestyle": "none", "label": display_name(point.optimizer)}
        marks = {"markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.6}
        bars = {"xerr": point.cost.std, "yerr": point.metric.std, "elinewidth": 0.8}
        ax.errorbar(point.cost.mean, point.metric.mean, zorder=3, **style, **marks, **bars)
    stairs = _stairs(panel)
    ax.plot(*zip(*stairs, strict=True), color=GREY, linestyle=DASHED, linewidth=1, label="Pareto front")
    ax.margins(0.15)
    if _is_wide([point.cost.mean for point in panel.points]):
        ax.set_xscale("log")
        label_log(ax.xaxis)
    if not panel.higher_is_better and _is_wide([point.metric.mean for point in panel.points]):
        ax.set_yscale("log")
        label_log(ax.yaxis)
    ax.set_xlabel(panel.axis)
    ax.set_ylabel(f"test {panel.metric}")
    _label(ax, panel, stairs)


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


def _label(ax: Any, panel: CostPanel, stairs: list[tuple[float, float]]) -> None:
    """Names beside the points, those of the front first."""
    from results.figures.point_labels import Label, PointLabels

    first = [*panel.front, *(point for point in panel.points if point not in panel.front)]
    labels = [
        Label(
            display_name(point.optimizer),
            point.cost.mean,
            point.metric.mean,
            optimizer_style(point.optimizer)["color"],
        )
        for point in first
    ]
    ax.add_artist(PointLabels(labels, stairs))
