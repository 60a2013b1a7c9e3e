"""Draws the panels of the spectral figures into matplotlib axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from harness.store import Store
from results.figures.spectral_panels import BarPanel, LayerPanel, UpdatePanel
from results.figures.style import DASHED, GREY, label_log, optimizer_style

_RANDOM = {"marker": "_", "markersize": 9, "markeredgewidth": 1.6, "linestyle": "none", "color": "0.55"}
_MANY_TIMES = 20  # if the ratio of largest to smallest value is greater, the axis is logarithmic
_MOST_TICKS = 24
_FLAT_NAMES = 4  # so many names of optimizers fit side by side


def draw_layers(ax: Any, panel: LayerPanel, _: Store) -> list[str]:
    """Draw a panel of `alpha_layers`, `alpha_kinds` or `norms`: mean and range over seeds."""
    places = range(len(panel.layers))
    for place in panel.left_out:
        ax.axvspan(place - 0.5, place + 0.5, color="0.93", linewidth=0, zorder=0, label="not in means")
    for optimizer, seeds in panel.lines.items():
        mean, low, high = _over_seeds(seeds)
        style = optimizer_style(optimizer)
        ax.plot(places, mean, label=optimizer, markersize=4.5, linewidth=1.3, **style)
        ax.fill_between(places, low, high, color=style["color"], alpha=0.2, linewidth=0)
    if panel.random:
        random = [math.nan if one is None else one for one in panel.random]
        ax.plot(places, random, label="random matrix", zorder=1.5, **_RANDOM)
    _label_layers(ax, panel)
    ax.set_ylabel(panel.quantity)
    values = [one for seeds in panel.lines.values() for own in seeds for one in own if one]
    if values and max(values) > _MANY_TIMES * min(values) > 0:
        ax.set_yscale("log")
        label_log(ax.yaxis)
    return []


def _over_seeds(seeds: Sequence[Sequence[float | None]]) -> tuple[list[float], list[float], list[float]]:
    """Mean, least and greatest value of each layer; nan where a seed has none."""
    layers = [
        [math.nan] if None in own else [one for one in own if one is not None]
        for own in zip(*seeds, strict=True)
    ]
    return [sum(own) / len(own) for own in layers], list(map(min, layers)), list(map(max, layers))


def _label_layers(ax: Any, panel: LayerPanel) -> None:
    numbered = all(name.isdigit() for name in panel.layers)
    step = math.ceil(len(panel.layers) / _MOST_TICKS)
    ax.set_xlim(-0.6, len(panel.layers) - 0.4)
    ax.set_xticks(range(0, len(panel.layers), step), panel.layers[::step])
    if not numbered or len(panel.layers) // step > 12:
        ax.tick_params(axis="x", rotation=90, labelsize=7.5)
    ax.set_xlabel(panel.axis)


def draw_bars(ax: Any, panel: BarPanel, _: Store) -> list[str]:
    """Draw a panel of `alpha_bars`: the mean with its standard deviation over seeds, and the median."""
    for place, (optimizer, found) in enumerate(panel.bars.items()):
        style = optimizer_style(optimizer)
        hatch = {"-": "", DASHED: "//"}.get(style["linestyle"], "..")
        ax.bar(place, found.mean, 0.7, color=style["color"], hatch=hatch, edgecolor="white", linewidth=0)
        if found.sd is not None:
            ax.errorbar(place, found.mean, found.sd, color="0.15", capsize=3, linewidth=1.1)
        ax.plot(
            place, found.median, "D", color="white", markeredgecolor="0.15", markersize=4.5, label="median"
        )
    names = list(panel.bars)
    ax.set_xticks(range(len(names)), names)
    if len(names) > _FLAT_NAMES:
        ax.tick_params(axis="x", rotation=35)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    ax.grid(visible=False, axis="x")
    ax.set_ylabel("mean alpha")
    return []


def draw_updates(ax: Any, panel: UpdatePanel, _: Store) -> list[str]:
    """Draw a panel of `update_spectra`: singular values by rank, and the line y = 1."""
    for optimizer, (mean, low, high) in panel.curves.items():
        style = optimizer_style(optimizer) | {"marker": None}
        ax.plot(panel.ranks, mean, label=optimizer, linewidth=1.4, **style)
        ax.fill_between(panel.ranks, low, high, color=style["color"], alpha=0.2, linewidth=0)
    ax.axhline(1, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.2)), zorder=1)
    values = [one for curve in panel.curves.values() for one in (*curve[1], *curve[2]) if one > 0]
    if values and max(values) > _MANY_TIMES * min(values):
        ax.set_yscale("log")
        label_log(ax.yaxis)
    ax.set_xlabel("rank")
    ax.set_ylabel("singular value of the update")
    return []
