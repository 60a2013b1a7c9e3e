"""Draws a panel of the figure `cost` into matplotlib axes. seaborn is imported when needed."""

from __future__ import annotations

from typing import Any

from results.figures.cost_panels import CostPanel
from results.figures.style import DASHED, GREY, display_name, label_log, optimizer_style

_MANY_TIMES = 4  # if the ratio of largest to smallest value is greater, the axis is logarithmic


def draw_cost(ax: Any, panel: CostPanel) -> None:
    """Draw a panel of `cost`: a mark with bars for each optimizer, and the Pareto front."""
    for point in panel.points:
        style = optimizer_style(point.optimizer) | {"linestyle": "none", "label": display_name(point.optimizer)}
        marks = {"markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.6}
        bars = {"xerr": point.cost.sd or None, "yerr": point.metric.sd or None, "elinewidth": 1}
        ax.errorbar(point.cost.value, point.metric.value, zorder=3, **style, **marks, **bars)
    _draw_front(ax, panel)
    ax.margins(0.12)
    costs = [point.cost.value for point in panel.points]
    if min(costs) > 0 and max(costs) > _MANY_TIMES * min(costs):
        ax.set_xscale("log")
        label_log(ax.xaxis)
    ax.set_xlabel(panel.axis)
    ax.set_ylabel(f"test {panel.metric}")


def _draw_front(ax: Any, panel: CostPanel) -> None:
    """As stairs: between two of its points the cheaper one is what can be had."""
    x = [point.cost.value for point in panel.front]
    y = [point.metric.value for point in panel.front]
    ax.plot(
        x,
        y,
        drawstyle="steps-post",
        color=GREY,
        linestyle=DASHED,
        linewidth=1,
        label="Pareto front",
        zorder=2,
    )
