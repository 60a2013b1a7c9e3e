"""Draws a `RowPanel` into matplotlib axes. matplotlib and seaborn are imported when needed."""

from __future__ import annotations

from typing import Any

from results.figures.log_ticks import set_log_ticks
from results.figures.row_panel import OptimizerRow, RowPanel, Span
from results.figures.style import GREY, display_name, optimizer_style

_MANY_TIMES = 8  # if the ratio of largest to smallest value is greater, the axis is logarithmic
_THIN, _THICK = 1.1, 4.5  # points; of the widest range, and of those within it
_TICK = {"marker": "|", "markersize": 7, "markeredgewidth": 1.2, "linestyle": "none"}
_DOT = {"marker": "o", "markersize": 3.8, "markeredgewidth": 0.4, "linestyle": "none"}
_BEYOND = {"markersize": 4, "markerfacecolor": "white", "linestyle": "none"}
_MISSED = {"marker": "x", "markersize": 4.2, "markeredgewidth": 1.2, "linestyle": "none"}
_ARROW = {"markersize": 3.5, "linestyle": "none"}
_SMALL = 6.5  # points, of names and numbers


def draw_rows(ax: Any, panel: RowPanel) -> None:
    """Draw one row per optimizer, the first on top."""
    for place, one in enumerate(panel.entries):
        _draw_row(ax, panel, one, place)
    _explain(ax, panel)
    ax.set_ylim(len(panel.entries) - 0.4, -1.4)  # the heading needs a row
    ax.set_yticks(
        range(len(panel.entries)), [display_name(one.optimizer) for one in panel.entries], size=_SMALL
    )
    ax.tick_params(axis="y", length=0, pad=1)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(panel.x_label)
    ax.margins(x=0.08)
    _write(ax, panel.heading, -1)
    _scale(ax, panel)


def _draw_row(ax: Any, panel: RowPanel, one: OptimizerRow, place: int) -> None:
    own = optimizer_style(one.optimizer)["color"]
    colour = {"color": own, "markerfacecolor": own, "markeredgecolor": own}
    _write(ax, one.text, place)
    if _is_beyond(panel, one):
        end = {"transform": ax.get_yaxis_transform(), "zorder": 4}
        ax.plot([0.98 if _bad_end(panel) else 0.02], [place], **colour | _beyond(panel) | end)
        return
    for number, span in enumerate(one.spans.values()):
        _draw_span(ax, span, place, {"linewidth": _THICK if number else _THIN, **colour})
    for dot in one.dots:
        if dot.reached:
            ax.plot([dot.x], [place], **colour | _DOT | {"markeredgecolor": "white"}, zorder=4)
        else:
            ax.plot([dot.x], [place], **colour | _MISSED, zorder=4)
    if one.mark is not None:
        ax.plot([one.mark], [place], **_TICK, color="black", zorder=3)


def _is_beyond(panel: RowPanel, one: OptimizerRow) -> bool:
    """Whether a row is worse than the axis shows. The first row is the best one."""
    if panel.worst_shown is None or one.mark is None:
        return False
    return one.mark > panel.worst_shown if _bad_end(panel) else one.mark < panel.worst_shown


def _bad_end(panel: RowPanel) -> int:
    """1 if bad values are at the right end of the axis, 0 if at the left one."""
    best, worst = panel.entries[0].mark, panel.worst_shown
    return int(best is not None and worst is not None and worst > best)


def _beyond(panel: RowPanel) -> dict[str, Any]:
    return _BEYOND | {"marker": ">" if _bad_end(panel) else "<"}


def _draw_span(ax: Any, span: Span, place: int, style: dict[str, Any]) -> None:
    """A line that ends exactly at the ends of the range, and an arrow at each open one."""
    ax.plot([span.low, span.high], [place, place], solid_capstyle="butt", zorder=2, **style)
    for x, is_open, marker in ((span.low, span.open_low, "<"), (span.high, span.open_high, ">")):
        if is_open:
            ax.plot([x], [place], marker=marker, zorder=3, **style | _ARROW)


def _write(ax: Any, text: str, place: float) -> None:
    """Text beyond the right end of the axes."""
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate(
        text, (1, place), (2, 0), size=_SMALL, color=GREY, va="center", annotation_clip=False, **where
    )


def _scale(ax: Any, panel: RowPanel) -> None:
    shown = [one for one in panel.entries if not _is_beyond(panel, one)]
    values = [value for one in shown for value in _values(one)]
    many = bool(values) and min(values) > 0 and max(values) > _MANY_TIMES * min(values)
    if many if panel.x_log is None else panel.x_log:
        ax.set_xscale("log")
        set_log_ticks(ax)


def _values(one: OptimizerRow) -> list[float]:
    ends = [end for span in one.spans.values() for end in (span.low, span.high)]
    return [*ends, *(dot.x for dot in one.dots), *([] if one.mark is None else [one.mark])]


def _explain(ax: Any, panel: RowPanel) -> None:
    """Add legend entries for what is drawn. They are grey, because each optimizer has its own colour."""
    grey = {"color": GREY, "markerfacecolor": GREY, "markeredgecolor": GREY}
    entries = panel.entries
    if any(one.mark is not None for one in entries):
        ax.plot([], [], **_TICK, color="black", label=panel.mark)
    if any(dot.reached for one in entries for dot in one.dots):
        ax.plot([], [], **grey | _DOT, label=panel.dot)
    if any(not dot.reached for one in entries for dot in one.dots):
        ax.plot([], [], **grey | _MISSED, label=panel.missed)
    if any(_is_beyond(panel, one) for one in entries):
        ax.plot([], [], **grey | _beyond(panel), label="beyond the axis")
    names = dict.fromkeys(name for one in entries for name in one.spans)
    for number, name in enumerate(names):
        width = _THICK if number else _THIN
        ax.plot([], [], color=GREY, linewidth=width, solid_capstyle="butt", label=name)
    if any(span.open_low or span.open_high for one in entries for span in one.spans.values()):
        ax.plot([], [], marker=">", **grey | _ARROW, label="nothing worse was tried beyond")
