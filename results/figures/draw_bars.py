"""Draws bars in groups into matplotlib axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from results.figures.kinds import PUBLISHED, Bar, BarPanel
from results.figures.style import GREY, display_name, hatch, lightened, optimizer_style

_WIDTH = 0.8  # of a group whose neighbours are 1 away
_MOST_FLAT = 46  # letters of as many labels as there are groups that fit side by side
_MOST_UPRIGHT = 8  # bars whose values fit above them without turning
_LEAST = 0.15  # part of the height of a cut axis that the least bar takes


def draw_bars(ax: Any, panel: BarPanel) -> None:
    """Draw a `BarPanel`: values with their standard deviations, and medians."""
    groups = list(dict.fromkeys(bar.group for bar in panel.bars))
    named = all(bar.group == display_name(bar.optimizer) for bar in panel.bars)
    for place, group in enumerate(groups):
        own = [bar for bar in panel.bars if bar.group == group]
        width = _WIDTH / len(own)
        for number, bar in enumerate(own):
            x = place + width * (number - (len(own) - 1) / 2)
            if bar.y is not None:
                _draw_bar(ax, bar, x, width * 0.92, named)
            if panel.cut or bar.y is None:
                _write_value(ax, bar, x, 90 if len(panel.bars) > _MOST_UPRIGHT else 0)
    if named:
        _explain_sources(ax, {bar.source for bar in panel.bars})
    ax.set_xlim(-0.6, len(groups) - 0.4)
    _limit(ax, panel)
    _label_groups(ax, groups)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(panel.y_label)


def _draw_bar(ax: Any, bar: Bar, x: float, width: float, named: bool) -> None:
    """`named`: the axis says which optimizer it is, and the legend needs not."""
    colour = optimizer_style(bar.optimizer)["color"]
    light = bar.source == PUBLISHED
    face = {"facecolor": lightened(colour) if light else colour, "edgecolor": colour if light else "white"}
    name = f"{display_name(bar.optimizer)}{', published' if light else ''}"
    ax.bar(x, bar.y, width, hatch=hatch(bar.optimizer), linewidth=0.8, label="_" if named else name, **face)
    if bar.sd is not None:
        ax.errorbar(x, bar.y, bar.sd, color="0.15", capsize=3, linewidth=1.1)
    if bar.median is not None:
        mark = {"color": "white", "markeredgecolor": "0.15", "markersize": 4.5, "linestyle": "none"}
        ax.plot(x, bar.median, "D", label="median", **mark)


def _explain_sources(ax: Any, sources: Iterable[str]) -> None:
    """Legend entries in grey, because each optimizer has its own colour; none if all are ours."""
    if PUBLISHED in sources:
        square = {"marker": "s", "markersize": 8, "linestyle": "none", "color": lightened(GREY)}
        ax.plot([], [], markeredgecolor=GREY, label="published", **square)


def _limit(ax: Any, panel: BarPanel) -> None:
    """Cut an axis whose bars differ by little; it then has room for the values above the bars."""
    known = [bar for bar in panel.bars if bar.y is not None]
    if not panel.cut or not known:
        return
    low = min(bar.y - (bar.sd or 0) for bar in known if bar.y is not None)
    high = max(bar.y + (bar.sd or 0) for bar in known if bar.y is not None)
    apart = (high - low) or abs(high) or 1.0
    room = 0.32 if len(panel.bars) > _MOST_UPRIGHT else 0.14
    ax.set_ylim(low - _LEAST * apart, high + room * apart)


def _write_value(ax: Any, bar: Bar, x: float, rotation: int) -> None:
    """The value above a bar, or in its place why there is none."""
    style = {"ha": "center", "va": "bottom", "textcoords": "offset points", "size": 6, "zorder": 4}
    if bar.y is None:
        place = {"xycoords": ax.get_xaxis_transform(), "color": GREY, "rotation": 90}
        ax.annotate(bar.state, (x, 0), (0, 3), **style | place)
    else:
        ax.annotate(f"{bar.y:.2f}", (x, bar.y + (bar.sd or 0)), (0, 2), rotation=rotation, **style)


def _label_groups(ax: Any, groups: Sequence[str]) -> None:
    """Long names break at "+"; if they still do not fit side by side they are turned."""
    labels = [group.replace("+", "\n+") for group in groups]
    most = max(len(line) for label in labels for line in label.splitlines())
    if most * len(labels) > _MOST_FLAT:
        style = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(len(groups)), groups, **style)
    else:
        ax.set_xticks(range(len(groups)), labels)
