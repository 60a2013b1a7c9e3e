"""Draws each kind of panel into matplotlib axes. matplotlib and seaborn are imported when needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from harness.store import Store
from results.figures.loss_panels import LossPanel, read_curves
from results.figures.panels import Line, Panel
from results.figures.style import CROSS, DASHED, GREY, RING, label_log, optimizer_style

_MOST_RATES = 6  # more learning rates than these do not fit as labels of an axis
_START = 0.05  # first part of a run; the axis need not show its high losses, which would flatten the rest
_MANY_TIMES = 8  # if the ratio of largest to smallest value is greater, the axis is logarithmic


def draw_lr(ax: Any, panel: Panel, _: Store) -> list[str]:
    """Draw a panel of `lr_curve`; return no warnings."""
    rates = sorted({x for line in panel.lines for x in (*line.diverged, *(x for x, _ in line.points))})
    ax.set_xscale("log")
    if len(rates) == 1:  # a logarithmic axis finds no limits around one value
        ax.set_xlim(rates[0] / 2, rates[0] * 2)
    _draw_lines(ax, panel)
    _label_rates(ax, rates)
    ax.set_xlabel("peak learning rate")
    return []


def _label_rates(ax: Any, rates: list[float]) -> None:
    """Label the learning rates that were tried, if they are few, far apart and short (not sampled ones)."""
    label_log(ax.xaxis)
    if not 1 < len(rates) <= _MOST_RATES or any(len(f"{rate:g}") > 6 for rate in rates):
        return
    apart = min(high / low for low, high in pairwise(rates))
    if math.log(apart) / math.log(rates[-1] / rates[0]) > 0.9 / _MOST_RATES:
        ax.set_xticks(rates)
        ax.set_xticks([], minor=True)


def draw_p(ax: Any, panel: Panel, _: Store) -> list[str]:
    """Draw a panel of `p_curve`; return no warnings."""
    from matplotlib.ticker import StrMethodFormatter

    _draw_lines(ax, panel)
    ax.set_xlabel("p (power of the singular values)")
    ax.set_xticks(sorted({x for line in panel.lines for x in (*line.diverged, *(x for x, _ in line.points))}))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if panel.reference is not None:
        optimizer, level = panel.reference
        colour = optimizer_style(optimizer)["color"]
        ax.axhline(level, color=colour, linestyle=DASHED, label=f"{optimizer}, best lr", zorder=1)
    return []


def _draw_lines(ax: Any, panel: Panel) -> None:
    import seaborn as sns

    for line in panel.lines:
        x, y = [x for x, _ in line.points], [y for _, y in line.points]
        style = optimizer_style(line.optimizer) | {
            "label": line.optimizer,
            "markersize": 5,
            "markeredgewidth": 0.6,
        }
        if line.points:
            sns.lineplot(x=x, y=y, ax=ax, legend=False, **style)
        else:
            ax.plot([], [], **style)  # without points seaborn adds no legend entry, but the crosses need one
        _mark(ax, panel, line, style["color"])
    ax.margins(0.08)
    ax.set_ylabel(f"validation {panel.metric}")
    values = [y for line in panel.lines for _, y in line.points]
    if not panel.higher_is_better and values and max(values) > _MANY_TIMES * min(values):
        ax.set_yscale("log")
        label_log(ax.yaxis)


def _mark(ax: Any, panel: Panel, line: Line, colour: Any) -> None:
    """Draw a ring at the chosen point, and a cross at the edge of bad values where all settings diverged."""
    for x, y in line.points:
        if x == line.chosen:
            ax.plot([x], [y], **RING, markeredgecolor=colour)
    before = panel.lines[: panel.lines.index(line)]  # their crosses at the same x must stay visible
    for x in line.diverged:
        depth = 0.03 + 0.06 * sum(x in other.diverged for other in before)
        place = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot(
            [x], [depth if panel.higher_is_better else 1 - depth], **CROSS, **place, markeredgecolor=colour
        )


def explain_marks(ax: Any, panels: Sequence[Panel]) -> None:
    """Add legend entries for ring and cross. They are grey, because each optimizer has its own colour."""
    if any(line.chosen is not None for panel in panels for line in panel.lines):
        ax.plot([], [], **RING, markeredgecolor=GREY, label="chosen")
    if any(line.diverged for panel in panels for line in panel.lines):
        ax.plot([], [], **CROSS, markeredgecolor=GREY, label="diverged")


def draw_loss(ax: Any, panel: LossPanel, store: Store) -> list[str]:
    """Draw a panel of `loss`: mean and range over seeds. Return warnings about damaged curves."""
    import seaborn as sns

    curves = read_curves(panel, store)
    starts, ends = [], []
    for optimizer, losses in curves.losses.items():
        style = optimizer_style(optimizer) | {"marker": None}
        mean = losses.mean(axis=1)
        sns.lineplot(x=mean.index, y=mean, ax=ax, label=optimizer, legend=False, linewidth=1.4, **style)
        low, high = losses.min(axis=1), losses.max(axis=1)
        ax.fill_between(mean.index, low, high, color=style["color"], alpha=0.2, linewidth=0)
        starts.append(mean[mean.index >= mean.index[-1] * _START].iloc[0])
        ends.append(low.min())
    if starts:
        _limit_losses(ax, max(starts), min(ends))
    ax.set_xlabel("step")
    ax.set_ylabel(f"training loss ({panel.unit})")
    return curves.warnings


def _limit_losses(ax: Any, start: float, end: float) -> None:
    """Limit the y axis to losses from `end` to `start`; make it logarithmic if their ratio is large."""
    if 0 < end < start / _MANY_TIMES:
        ax.set_yscale("log")
        ax.set_ylim(0.8 * end, 1.2 * start)
        label_log(ax.yaxis)
    else:
        margin = 0.05 * (start - end)
        ax.set_ylim(end - margin, start + margin)
