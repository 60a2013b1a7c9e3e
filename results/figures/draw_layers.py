"""Draws a quantity of the weights, layer by layer, into matplotlib axes."""

from __future__ import annotations

import math
from typing import Any

from results.figures.kinds import LayerPanel, spread
from results.figures.style import display_name, label_log, optimizer_style

_RANDOM = {"marker": "_", "markersize": 7, "markeredgewidth": 1.4, "linestyle": "none", "color": "0.55"}
_MANY_TIMES = 20  # if the ratio of largest to smallest value is greater, the axis is logarithmic
_MOST_TICKS = 24


def draw_layers(ax: Any, panel: LayerPanel) -> None:
    """Draw a `LayerPanel`: mean and range over seeds."""
    places = range(len(panel.layers))
    for place in panel.left_out:
        ax.axvspan(place - 0.5, place + 0.5, color="0.93", linewidth=0, zorder=0, label="not in means")
    for optimizer, seeds in panel.lines.items():
        mean, low, high = _over_seeds(seeds)
        style = optimizer_style(optimizer) | {"label": display_name(optimizer), "linewidth": 1.2}
        ax.plot(places, mean, markersize=3.5, **style)
        ax.fill_between(places, low, high, color=style["color"], alpha=0.2, linewidth=0)
        ax.vlines(
            places, low, high, color=style["color"], alpha=0.5, linewidth=1
        )  # of a layer without neighbours
    if panel.random:
        random = [math.nan if one is None else one for one in panel.random]
        ax.plot(places, random, label="random matrix", zorder=1.5, **_RANDOM)
    _label_layers(ax, panel)
    ax.set_ylabel(panel.quantity)
    values = [one for seeds in panel.lines.values() for own in seeds for one in own if one]
    if values and max(values) > _MANY_TIMES * min(values) > 0:
        ax.set_yscale("log")
        label_log(ax.yaxis)


def _over_seeds(seeds: list[list[float | None]]) -> tuple[list[float], list[float], list[float]]:
    """Mean, least and greatest value of each layer; nan where a seed has none."""
    found = []
    for values in zip(*seeds, strict=True):
        known = [one for one in values if one is not None]
        mean, _, low, high = spread(known if len(known) == len(values) else [math.nan])
        found.append((mean, low, high))
    return [one for one, _, _ in found], [one for _, one, _ in found], [one for _, _, one in found]


def _label_layers(ax: Any, panel: LayerPanel) -> None:
    numbered = all(name.isdigit() for name in panel.layers)
    step = math.ceil(len(panel.layers) / _MOST_TICKS)
    ax.set_xlim(-0.6, len(panel.layers) - 0.4)
    ax.set_xticks(range(0, len(panel.layers), step), panel.layers[::step])
    if not numbered or len(panel.layers) // step > 12:
        ax.tick_params(axis="x", rotation=90, labelsize=6.5)
    ax.set_xlabel(panel.axis)
