"""The four marks that panels are drawn with: curves, dots, rows and points.

They are matplotlib's, not those of seaborn.objects, which was tried: of eight series whose colour, marker,
dashes, width and edge are mapped it looks at all 8^7 combinations (minutes for a figure), puts the ends of
horizontal ranges on a logarithmic axis elsewhere, draws bands across missing values, and has no
second axis, no place for a value beyond the axis and no legend that several panels share. Each mark returns
its entries for that legend: by a word, or by a name and its source.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from matplotlib.patches import Patch
from matplotlib.ticker import StrMethodFormatter

from htbench.results.figures import kinds
from htbench.results.figures.kinds import CHOSEN, KINDS, MARK, POINT, PUBLISHED, SPAN, Panel
from htbench.results.figures.style import (
    DASHED,
    DOTTED,
    GREY,
    SMALL,
    display_name,
    label_log,
    optimizer_style,
    series_style,
)

Style = dict[str, Any]  # of a line or a patch
Entries = dict[str | tuple[str, str], Any]  # of a legend: label, or name and source -> style, or a patch

_NO_LINE: Style = {"linestyle": "none"}
_RING: Style = _NO_LINE | {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.4}
_CROSS: Style = _NO_LINE | {"marker": "x", "markersize": 7, "markeredgewidth": 2}
_RANDOM: Style = _NO_LINE | {"marker": "_", "markersize": 7, "markeredgewidth": 1.4, "color": "0.55"}
_MEDIAN: Style = _NO_LINE | {
    "marker": "_",
    "color": "0.15",
    "markersize": 11,
    "markeredgewidth": 1.2,
    "zorder": 2,
}
_BEYOND: Style = _NO_LINE | {"markersize": 4.2, "markerfacecolor": "white"}  # worse than the axis shows
_ARROW: Style = _NO_LINE | {"markersize": 3.5}
_DIGIT: Style = {"marker": "$5$", "color": GREY, "markersize": 4.5, "markeredgewidth": 0}
_EDGE: Style = {"markeredgecolor": "white", "markeredgewidth": 0.4}
_IN_ROWS: dict[str, Style] = {
    MARK: _NO_LINE | {"marker": "|", "markersize": 7, "markeredgewidth": 1.2, "color": "black", "zorder": 3},
    kinds.DOT: _NO_LINE | {"marker": "o", "markersize": 3.8, "zorder": 4} | _EDGE,
    kinds.MISSED: _NO_LINE | {"marker": "x", "markersize": 4.2, "markeredgewidth": 1.2, "zorder": 4},
}
_THIN, _THICK = 1.1, 4.5  # points; of the widest range in a row, and of those within it
# If the ratio of the largest to the smallest value is greater, an axis is logarithmic.
_MANY_TIMES = {"curves": 8, "words": 20, "rows": 8, "points": 4}
_MOST_TICKS = 24  # of words
_WIDTH = 0.8  # of a group of dots whose neighbours are 1 away
_MOST_LETTERS = 47  # of labels side by side
_MOST_MARKERS = 10  # of a curve, about
_MOST_UPRIGHT = 8  # dots whose values fit above them without turning
_MOST_NAMED = 8  # points of costs; of more, only the best are in the legend
_OTHER: Style = _NO_LINE | {"marker": "o", "color": "0.75", "markersize": 3, "markeredgewidth": 0}


def _list_rows(frame: pd.DataFrame) -> list[Any]:
    """The rows of a frame by the names of its columns."""
    return list(frame.itertuples())


def _is_wide(values: Iterable[float], times: float) -> bool:
    finite = [value for value in values if value == value]
    return bool(finite) and max(finite) > times * min(finite) > 0


def _find_beyond(panel: Panel, values: pd.Series[float]) -> pd.Series[bool]:
    """Which values are worse than the axis shows."""
    sign = -1 if panel.higher_is_better else 1
    return sign * values > (math.inf if panel.worst_shown is None else sign * panel.worst_shown)


# --- curves ---


def draw_curves(ax: Any, panel: Panel) -> Entries:
    """Series along an axis, with standard deviations and bands, and lines across it."""
    kind, entries = KINDS[panel.kind], Entries()
    words = kind.x_scale == "words"
    points = panel.of(POINT, CHOSEN, kinds.LEFT_OUT, kinds.DIVERGED)
    points["x"] = points.groupby("series").cumcount() if words else points["x"].astype(float)
    points["right"] = (points["quantity"] == panel.right_label) & bool(panel.right_label)
    right = ax.twinx() if panel.right_label else ax
    variants: Counter[tuple[Any, ...]] = Counter()  # series of one optimizer
    crosses: Counter[float] = Counter()  # at an x; all of them must stay visible
    groups: Any = list(points.groupby(["series", "optimizer", "source", "right"], sort=False))
    alike = Counter(tuple(who) for (_, *who), _ in groups)
    for (name, *who), series in groups:
        variant = variants[tuple(who)] if alike[tuple(who)] > 1 else None
        style = series_style(who[0], who[1], variant, who[2])
        style |= {"markersize": 3.5 if words else 5} if kind.markers else {"marker": None}
        style |= {"markevery": max(1, len(series) // _MOST_MARKERS)}
        style |= {} if kind.joined else _NO_LINE
        variants[tuple(who)] += 1
        entries[name, who[1]] = style
        diverged = series["role"] == kinds.DIVERGED
        _draw_curve(right if who[2] else ax, series[~diverged], style, words or kind.whiskers)
        for x in series.loc[diverged, "x"]:
            depth = 0.03 + 0.06 * crosses[x]
            crosses[x] += 1
            place = {
                "transform": ax.get_xaxis_transform(),
                "clip_on": False,
                "markeredgecolor": style["color"],
            }
            ax.plot([x], [depth if panel.higher_is_better else 1 - depth], **_CROSS, **place)
    entries |= _draw_levels(ax, right, panel) | _draw_laws(ax, panel)
    if (points["role"] == CHOSEN).any():
        entries["chosen"] = _RING | {"markeredgecolor": GREY}
    if crosses:
        entries["diverged"] = _CROSS | {"markeredgecolor": GREY}
    for side in dict.fromkeys((ax, right)):
        side.margins(0.08 if kind.markers else 0.02)
    if words:
        entries |= _draw_words(ax, panel, points)
    _scale_curves(ax, panel, points)
    ax.set(xlabel=panel.x_label or kind.x, ylabel=panel.y_label)
    if right is not ax:
        right.set_ylabel(panel.right_label)
        right.grid(visible=False)
        right.spines["right"].set_visible(True)
    return entries


def _draw_curve(ax: Any, points: pd.DataFrame, style: Mapping[str, Any], whiskers: bool) -> None:
    x, y, sd, low, high = (points[name] for name in ("x", "y", "y_sd", "y_low", "y_high"))
    colour = style["color"]
    if style["marker"] and not whiskers and (sd > 0).any():
        ax.errorbar(x, y, yerr=sd.fillna(0.0), elinewidth=1, capsize=2, **style)
    else:
        ax.plot(x, y, **style)
    if low.notna().any():
        ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    if whiskers:  # a point without neighbours has no band
        ax.vlines(x, low, high, color=colour, alpha=0.5, linewidth=1)
    chosen = points[points["role"] == CHOSEN]
    ax.plot(chosen["x"], chosen["y"], **_RING, markeredgecolor=colour)


def _draw_levels(ax: Any, right: Any, panel: Panel) -> Entries:
    """Horizontal lines: what an optimizer reaches that has no value on the axis."""
    entries: Entries = {}
    for row in _list_rows(panel.of(kinds.LEVEL)):
        on_the_right = right is not ax and row.quantity == panel.right_label
        grey = on_the_right or not row.optimizer
        colour = GREY if grey else optimizer_style(row.optimizer)["color"]
        style: Style = {"color": colour, "linestyle": DOTTED if on_the_right else DASHED}
        style |= {"linewidth": 0.8 if grey else 1.1, "zorder": 1}
        (right if on_the_right else ax).axhline(row.y, **style)
        entries[row.series, row.source] = style
    return entries


def _draw_laws(ax: Any, panel: Panel) -> Entries:
    """Fitted curves, and arrows where a value lies beyond what was observed."""
    entries: Entries = {}
    for name, law in panel.of(kinds.LAW).groupby("optimizer", sort=False):
        style: Style = {"linestyle": DASHED, "linewidth": 0.9, "zorder": 1}
        ax.plot(law["x"], law["y"], color=optimizer_style(str(name))["color"], **style)
        entries["law"] = style | {"color": GREY}
    for row in _list_rows(panel.of(kinds.ABOVE, kinds.BELOW)):
        style = optimizer_style(row.optimizer)
        up = 1 if row.role == kinds.ABOVE else -1
        ax.plot([row.x], [row.y], zorder=4, **style | _BEYOND)
        arrow = {"arrowstyle": "<-", "color": style["color"], "shrinkA": 0, "shrinkB": 2}
        ax.annotate("", (row.x, row.y), (0, 15 * up), "data", "offset points", arrowprops=arrow)
        entries["an arrow: beyond what was observed"] = _ARROW | {"marker": 6, "color": GREY}
    return entries


def _draw_words(ax: Any, panel: Panel, points: pd.DataFrame) -> Entries:
    """A place on the axis for each layer, the random matrix in it, and a shade where no mean has it."""
    entries: Entries = {}
    shade: Style = {"color": "0.93", "linewidth": 0, "zorder": 0}
    random = panel.of(kinds.RANDOM)
    for place in points.loc[points["role"] == kinds.LEFT_OUT, "x"].unique():
        ax.axvspan(place - 0.5, place + 0.5, **shade)
        entries["not in means"] = Patch(**shade)
    if len(random):
        ax.plot(range(len(random)), random["y"], zorder=1.5, **_RANDOM)
        entries["random matrix"] = _RANDOM
    labels = list(panel.frame.loc[panel.frame["series"] == points["series"].iloc[0], "x"])
    if points["y"].isna().all():  # an axis of nothing
        ax.set_yticks([])
    step = math.ceil(len(labels) / _MOST_TICKS)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    ax.set_xticks(range(0, len(labels), step), labels[::step])
    if len(labels) // step > 12 or not all(label.isdigit() for label in labels):
        ax.tick_params(axis="x", rotation=90, labelsize=SMALL)
    return entries


def _scale_curves(ax: Any, panel: Panel, points: pd.DataFrame) -> None:
    scale, left_axis = KINDS[panel.kind].x_scale, points[~points["right"]]
    tried = sorted(points["x"].unique())
    if scale == "words":
        is_log = _is_wide([*left_axis["y_low"], *left_axis["y_high"]], _MANY_TIMES["words"])
    else:
        is_log = not panel.higher_is_better and _is_wide(left_axis["y"], _MANY_TIMES["curves"])
    if is_log if panel.y_log is None else panel.y_log:
        ax.set_yscale("log")
    if panel.y_limits is not None:
        ax.set_ylim(*panel.y_limits)
    if ax.get_yscale() == "log":
        label_log(ax.yaxis)
    if scale == "values":
        ax.set_xticks(tried)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    elif scale in ("tried", "log"):
        ax.set_xscale("log")
        if len(tried) == 1:  # a logarithmic axis finds no limits around one value
            ax.set_xlim(tried[0] / 2, tried[0] * 2)
        label_log(ax.xaxis, tried if scale == "tried" else ())


# --- dots ---


def draw_dots(ax: Any, panel: Panel) -> Entries:
    """Values in groups, written above them, with their standard deviations and medians."""
    points = panel.of(POINT, kinds.DIVERGED, kinds.MISSING)
    medians = {(row.series, row.x): row.y for row in _list_rows(panel.of(kinds.MEDIAN))}
    is_axis_named = all(row.x == display_name(row.optimizer) for row in _list_rows(points))
    rotation = 90 if len(points) > _MOST_UPRIGHT else 0
    text = {"ha": "center", "va": "bottom", "textcoords": "offset points", "size": SMALL, "zorder": 4}
    empty = {"xycoords": ax.get_xaxis_transform(), "color": GREY, "rotation": 90}
    entries: Entries = {}
    groups = list(dict.fromkeys(points["x"]))
    for place, group in enumerate(groups):
        group_rows = points[points["x"] == group]
        for number, row in enumerate(_list_rows(group_rows)):
            x = place + _WIDTH * ((number + 0.5) / len(group_rows) - 0.5)
            if row.y != row.y:  # a word in its place says why
                ax.annotate(row.text, (x, 0), (0, 3), **text | empty)
                continue
            style, sd = _point_style(row), 0.0 if row.y_sd != row.y_sd else row.y_sd
            ax.errorbar(x, row.y, sd or None, capsize=3, elinewidth=1.1, **style)
            ax.annotate(f"{row.y:.2f}", (x, row.y + sd), (0, 4), rotation=rotation, **text)
            if (row.series, group) in medians:
                ax.plot(x, medians[row.series, group], **_MEDIAN)
                entries["median"] = _MEDIAN
            if not is_axis_named:  # else the axis says which optimizer it is
                entries[row.optimizer, row.source] = style
            elif row.source == PUBLISHED:
                entries["published"] = style | {"marker": "o", "color": GREY, "markeredgecolor": GREY}
    ax.set_xlim(-0.6, len(groups) - 0.4)
    ax.margins(y=0.4 if rotation else 0.16)
    is_long = max(map(len, groups)) * len(groups) > _MOST_LETTERS
    turned = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
    ax.set_xticks(range(len(groups)), groups, **turned)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(panel.y_label)
    return entries


# --- a row per optimizer ---


def draw_rows(ax: Any, panel: Panel) -> Entries:
    """A row per optimizer, the first on top: name, ranges, single runs, a mark, and a text at the right."""
    kind, entries = KINDS[panel.kind], Entries()
    drawn = panel.of(MARK, SPAN, kinds.DOT, kinds.MISSED)
    marks = drawn[drawn["role"] == MARK]
    names = list(dict.fromkeys(drawn["optimizer"]))
    beyond = set(marks.loc[_find_beyond(panel, marks["y"]), "optimizer"])
    near = drawn[~drawn["optimizer"].isin(beyond)]
    spans = list(dict.fromkeys(drawn.loc[drawn["role"] == SPAN, "text"]))
    widths = dict.fromkeys(spans, _THICK) | dict.fromkeys(spans[:1], _THIN)
    arrow: Style = _BEYOND | {"marker": "<" if panel.higher_is_better else ">"}
    end = 0.02 if panel.higher_is_better else 0.98
    for row in _list_rows(drawn):
        place, colour = names.index(row.optimizer), {"color": optimizer_style(row.optimizer)["color"]}
        if row.optimizer in beyond:
            if row.role == MARK:
                ax.plot([end], [place], transform=ax.get_yaxis_transform(), zorder=4, **arrow, **colour)
        elif row.role == SPAN:
            ax.hlines(place, row.y_low, row.y_high, linewidth=widths[row.text], zorder=2, **colour)
            for is_open, x, marker in zip(row.ends, (row.y_low, row.y_high), "<>", strict=True):
                if is_open:
                    ax.plot([x], [place], marker=marker, zorder=3, **_ARROW, **colour)
        elif row.y == row.y:
            ax.plot([row.y], [place], **colour | _IN_ROWS[row.role])
    text = {
        "xycoords": ("axes fraction", "data"),
        "textcoords": "offset points",
        "va": "center",
        "color": GREY,
    }
    for place, words in enumerate([kind.words[""], *marks["text"]], -1):  # the heading has a row, too
        ax.annotate(words, (1, place), (2, 0), size=SMALL, annotation_clip=False, **text)
    ax.set_ylim(len(names) - 0.4, -1.4)
    ax.set_yticks(range(len(names)), [display_name(name) for name in names], size=SMALL)
    ax.tick_params(axis="y", length=0, pad=1)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(panel.x_label)
    ax.margins(x=0.08)
    values = [*near["y"], *near["y_low"], *near["y_high"]]
    if kind.x_scale == "log" or _is_wide(values, _MANY_TIMES["rows"]):
        ax.set_xscale("log")
        label_log(ax.xaxis)
    for role, style in _IN_ROWS.items():
        if drawn.loc[drawn["role"] == role, "y"].notna().any():
            entries[kind.words[role]] = Style(color=GREY) | style
    if beyond:
        entries["beyond the axis"] = arrow | {"color": GREY}
    for name, width in widths.items():
        entries[name] = Style(color=GREY, linewidth=width, solid_capstyle="butt")
    if any(any(ends) for ends in drawn["ends"]):
        entries["nothing worse was tried beyond"] = _ARROW | {"marker": ">", "color": GREY}
    return entries


# --- points ---


def draw_points(ax: Any, panel: Panel) -> Entries:
    """Points with their spreads, and the front of the best ones. Of many only the front is told apart."""
    entries: Entries = {}
    drawn, front = panel.of(POINT), panel.of(kinds.FRONT)
    drawn["x"] = drawn["x"].astype(float)
    far, best = _find_beyond(panel, drawn["y"]), drawn["series"].isin(front["text"])
    is_named = best | (len(drawn) <= _MOST_NAMED)
    text = {"textcoords": "offset points", "size": SMALL, "zorder": 4}
    for row in _list_rows(drawn[~far]):
        style = _point_style(row) if is_named[row.Index] else _OTHER
        errors = {"yerr": row.y_sd, "xerr": row.x_sd} if is_named[row.Index] else {}
        ax.errorbar(row.x, row.y, elinewidth=0.7, zorder=3, **errors, **style)
        if is_named[row.Index] and row.text:
            ax.annotate(row.text, (row.x, row.y), (3, 2), **text)
    for name, line_points in drawn[is_named & ~far].groupby("optimizer", sort=False):
        colour = optimizer_style(str(name))["color"]
        ax.plot(line_points["x"], line_points["y"], color=colour, linewidth=0.6, alpha=0.7, zorder=2)
    stairs: list[tuple[float, float]] = []  # between two points of the front the cheaper one can be had
    for row in _list_rows(front[~_find_beyond(panel, front["y"])]):
        stairs += [(float(row.x), stairs[-1][1])] if stairs else []
        stairs.append((float(row.x), row.y))
    line: Style = {"color": GREY, "linestyle": DASHED, "linewidth": 1}
    ax.plot(*zip(*stairs, strict=True), **line)
    ax.margins(0.12)
    if _is_wide(drawn["x"], _MANY_TIMES["points"]):
        ax.set_xscale("log")
        label_log(ax.xaxis)
    ax.set_ylim(ax.get_ylim())
    end = ax.get_ylim()[int(not panel.higher_is_better)]
    arrow = {"marker": "v" if panel.higher_is_better else "^", "clip_on": False, "zorder": 3}
    for row in _list_rows(drawn[far]):
        style = _point_style(row) if is_named[row.Index] else _OTHER
        ax.plot([row.x], [end], **style | arrow)
    for row in _list_rows(drawn[is_named]):
        entries[row.optimizer, row.source] = _point_style(row)
    if not is_named.all():
        entries["others, named in the CSV file"] = _OTHER
    if far.any():
        entries["beyond the axis"] = _BEYOND | arrow | {"color": GREY}
    entries["front: nothing cheaper is better"] = line
    if (drawn.loc[is_named & ~far, "text"] != "").any():
        entries["interval"] = _NO_LINE | _DIGIT
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    return entries


def _point_style(row: Any) -> Style:
    return series_style(row.optimizer, row.source) | _NO_LINE | {"markersize": 5}


MARKS = {"curves": draw_curves, "dots": draw_dots, "rows": draw_rows, "points": draw_points}
