"""The four marks that panels are drawn with: curves, bars, rows and points with names.

They are matplotlib's, not those of seaborn.objects, which was tried: of eight series whose colour, marker,
dashes, width and edge are mapped it looks at all 8^7 combinations (minutes for a figure), puts the ends of
horizontal ranges on a logarithmic axis elsewhere, draws bands across missing values, and has no hatches, no
second axis, no place for a value beyond the axis and no legend that several panels share. Each mark returns
its entries for that legend: by a word, or by a name and its source.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import StrMethodFormatter

from htbench.results.figures import kinds
from htbench.results.figures.kinds import CHOSEN, KINDS, MARK, POINT, PUBLISHED, SHOWN, SPAN, Panel
from htbench.results.figures.point_labels import Label, PointLabels
from htbench.results.figures.style import (
    DASHED,
    DOTTED,
    GREY,
    SMALL,
    display_name,
    hatch,
    label_log,
    mixed,
    optimizer_style,
    series_style,
)

Entries = dict[str | tuple[str, str], Any]  # of a legend: label, or name and source -> handle
Style = dict[str, Any]  # of a line or a patch

_NO_LINE: Style = {"linestyle": "none"}
_RING: Style = _NO_LINE | {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.4}
_CROSS: Style = _NO_LINE | {"marker": "x", "markersize": 7, "markeredgewidth": 2}
_RANDOM: Style = _NO_LINE | {"marker": "_", "markersize": 7, "markeredgewidth": 1.4, "color": "0.55"}
_MEDIAN: Style = _NO_LINE | {"marker": "D", "color": "white", "markeredgecolor": "0.15", "markersize": 4.5}
_BEYOND: Style = _NO_LINE | {"markersize": 4.2, "markerfacecolor": "white"}  # worse than the axis shows
_ARROW: Style = _NO_LINE | {"markersize": 3.5}
_EDGE: Style = {"markeredgecolor": "white", "markeredgewidth": 0.4}
_IN_ROWS: dict[str, Style] = {
    MARK: _NO_LINE | {"marker": "|", "markersize": 7, "markeredgewidth": 1.2, "color": "black", "zorder": 3},
    kinds.DOT: _NO_LINE | {"marker": "o", "markersize": 3.8, "zorder": 4} | _EDGE,
    kinds.MISSED: _NO_LINE | {"marker": "x", "markersize": 4.2, "markeredgewidth": 1.2, "zorder": 4},
}
NAMED = "named_points"  # of axes: x, y and name of each point, for who can point at it
_THIN, _THICK = 1.1, 4.5  # points; of the widest range in a row, and of those within it
_SOLE = "#0173b2"  # of points that belong to no optimizer: the first one of the colour-blind palette
# If the ratio of the largest to the smallest value is greater, an axis is logarithmic.
_MANY_TIMES = {"curves": 8, "words": 20, "rows": 8, "points": 4}
_MOST_TICKS = 24  # of words
_WIDTH = 0.8  # of a group of bars whose neighbours are 1 away
_BESIDE, _LETTER = 0.55, 0.06  # inches that a panel's axis takes, and a letter of a label
_MOST_MARKERS = 10  # of a curve, about
_MOST_UPRIGHT = 8  # bars whose values fit above them without turning
_MOST_NAMED = 8  # points of costs; of more, only the best have a name
_LINE, _AXIS = 0.12, 0.55  # inches of a line of text, and of the axis below a panel
_LONGEST_END = 16  # letters of a name at the end of its curve
_OTHER: Style = _NO_LINE | {"marker": "o", "color": "0.75", "markersize": 3, "markeredgewidth": 0}


def _each(frame: pd.DataFrame) -> list[Any]:
    """The rows of a frame by the names of its columns."""
    return list(frame.itertuples())


def _is_wide(values: Iterable[float], times: float) -> bool:
    known = [value for value in values if value == value]
    return bool(known) and max(known) > times * min(known) > 0


def _beyond(panel: Panel, values: pd.Series[float]) -> pd.Series[bool]:
    """Which values are worse than the axis shows."""
    sign = -1 if panel.higher_is_better else 1
    return sign * values > (math.inf if panel.worst_shown is None else sign * panel.worst_shown)


# --- curves ---


def curves(ax: Any, panel: Panel) -> Entries:
    """Series along an axis, with standard deviations and bands, and lines across it."""
    kind, entries = KINDS[panel.kind], Entries()
    words = kind.x_scale == "words"
    shown = panel.of(POINT, CHOSEN, kinds.LEFT_OUT, kinds.DIVERGED)
    shown["x"] = shown.groupby("series").cumcount() if words else shown["x"].astype(float)
    shown["right"] = (shown["quantity"] == panel.right_label) & bool(panel.right_label)
    right = ax.twinx() if panel.right_label else ax
    variants: Counter[tuple[Any, ...]] = Counter()  # series of one optimizer
    crosses: Counter[float] = Counter()  # at an x; all of them must stay visible
    groups: Any = list(shown.groupby(["series", "optimizer", "source", "right"], sort=False))
    alike = Counter(tuple(who) for (_, *who), _ in groups)
    named: dict[tuple[str, str], tuple[pd.DataFrame, Any]] = {}
    for (name, *who), own in groups:
        variant = variants[tuple(who)] if alike[tuple(who)] > 1 else None
        style = series_style(who[0], who[1], variant, who[2])
        style |= {"markersize": 3.5 if words else 5} if kind.markers else {"marker": None}
        style |= {"markevery": max(1, len(own) // _MOST_MARKERS)}
        style |= {} if kind.joined else _NO_LINE
        variants[tuple(who)] += 1
        named[name, who[1]] = (own, Line2D([], [], **style))
        diverged = own["role"] == kinds.DIVERGED
        _curve(right if who[2] else ax, own[~diverged], style, words or kind.whiskers)
        for x in own.loc[diverged, "x"]:
            depth = 0.03 + 0.06 * crosses[x]
            crosses[x] += 1
            place = {
                "transform": ax.get_xaxis_transform(),
                "clip_on": False,
                "markeredgecolor": style["color"],
            }
            ax.plot([x], [depth if panel.higher_is_better else 1 - depth], **_CROSS, **place)
    levels = _levels(ax, right, panel) | _laws(ax, panel)
    if (shown["role"] == CHOSEN).any():
        entries["chosen"] = Line2D([], [], **_RING, markeredgecolor=GREY)
    if crosses:
        entries["diverged"] = Line2D([], [], **_CROSS, markeredgecolor=GREY)
    for side in dict.fromkeys((ax, right)):
        side.margins(0.08 if kind.markers else 0.02)
    if words:
        entries |= _words(ax, panel, shown)
    _scale_curves(ax, panel, shown)
    if not (kind.ends and _name_ends(ax, named)):
        entries = {name: handle for name, (_, handle) in named.items()} | levels | entries
    else:
        entries = levels | entries
    ax.set(xlabel=panel.x_label or kind.x, ylabel=panel.y_label)
    if right is not ax:
        right.set_ylabel(panel.right_label)
        right.grid(visible=False)
        right.spines["right"].set_visible(True)
    return entries


def _name_ends(ax: Any, named: Mapping[tuple[str, str], tuple[pd.DataFrame, Any]]) -> bool:
    """Write each name where its curve ends, and say whether that could be done: the curves end together, the
    names are short, and there is room for them below each other."""
    ends = {
        name: own[own["y"].notna()].iloc[-1]
        for (name, _), (own, _) in named.items()
        if own["y"].notna().any()
    }
    step = _LINE / (KINDS["losses"].height - _AXIS)  # of the height of the panel
    if len({end["x"] for end in ends.values()}) != 1 or len(ends) < len(named) or len(ends) * step > 1:
        return False
    if max(map(len, ends)) > _LONGEST_END:
        return False
    to_share = (ax.transScale + ax.transLimits).transform
    places = {name: min(max(to_share((end["x"], end["y"]))[1], 0), 1) for name, end in ends.items()}
    order = sorted(places, key=lambda name: places[name])
    for below, name in pairwise(order):  # upwards, then down from the top
        places[name] = max(places[name], places[below] + step)
    places[order[-1]] = min(places[order[-1]], 1)
    for name, above in pairwise(order[::-1]):
        places[above] = min(places[above], places[name] - step)
    for (name, _), (_, handle) in named.items():
        colour = mixed(handle.get_color(), 0.75, 0.0)
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center"}
        ax.annotate(display_name(name), (1, places[name]), (3, 0), size=SMALL, color=colour, **place)
    return True


def _curve(ax: Any, points: pd.DataFrame, style: Mapping[str, Any], whiskers: bool) -> None:
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


def _levels(ax: Any, right: Any, panel: Panel) -> Entries:
    """Horizontal lines: what an optimizer reaches that has no value on the axis."""
    entries: Entries = {}
    for row in _each(panel.of(kinds.LEVEL)):
        on_the_right = right is not ax and row.quantity == panel.right_label
        grey = on_the_right or not row.optimizer
        colour = GREY if grey else optimizer_style(row.optimizer)["color"]
        style: Style = {"color": colour, "linestyle": DOTTED if on_the_right else DASHED}
        style |= {"linewidth": 0.8 if grey else 1.1, "zorder": 1}
        (right if on_the_right else ax).axhline(row.y, **style)
        entries[row.series, row.source] = Line2D([], [], **style)
    return entries


def _laws(ax: Any, panel: Panel) -> Entries:
    """Fitted curves, and arrows where a value lies beyond what was observed."""
    entries: Entries = {}
    for name, own in panel.of(kinds.LAW).groupby("optimizer", sort=False):
        style: Style = {"linestyle": DASHED, "linewidth": 0.9, "zorder": 1}
        ax.plot(own["x"], own["y"], color=optimizer_style(str(name))["color"], **style)
        entries["law"] = Line2D([], [], color=GREY, **style)
    for row in _each(panel.of(kinds.ABOVE, kinds.BELOW)):
        style = optimizer_style(row.optimizer)
        up = 1 if row.role == kinds.ABOVE else -1
        ax.plot([row.x], [row.y], zorder=4, **style | _BEYOND)
        arrow = {"arrowstyle": "<-", "color": style["color"], "shrinkA": 0, "shrinkB": 2}
        ax.annotate("", (row.x, row.y), (0, 15 * up), "data", "offset points", arrowprops=arrow)
        entries["an arrow: beyond what was observed"] = Line2D([], [], color=GREY, **_ARROW | {"marker": 6})
    return entries


def _words(ax: Any, panel: Panel, shown: pd.DataFrame) -> Entries:
    """A place on the axis for each layer, the random matrix in it, and a shade where no mean has it."""
    entries: Entries = {}
    shade: Style = {"color": "0.93", "linewidth": 0, "zorder": 0}
    random = panel.of(kinds.RANDOM)
    for place in shown.loc[shown["role"] == kinds.LEFT_OUT, "x"].unique():
        ax.axvspan(place - 0.5, place + 0.5, **shade)
        entries["not in means"] = Patch(**shade)
    if len(random):
        ax.plot(range(len(random)), random["y"], zorder=1.5, **_RANDOM)
        entries["random matrix"] = Line2D([], [], **_RANDOM)
    labels = list(panel.frame.loc[panel.frame["series"] == shown["series"].iloc[0], "x"])
    if shown["y"].isna().all():  # an axis of nothing
        ax.set_yticks([])
    step = math.ceil(len(labels) / _MOST_TICKS)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    ax.set_xticks(range(0, len(labels), step), labels[::step])
    if len(labels) // step > 12 or not all(label.isdigit() for label in labels):
        ax.tick_params(axis="x", rotation=90, labelsize=SMALL)
    return entries


def _scale_curves(ax: Any, panel: Panel, shown: pd.DataFrame) -> None:
    scale, left = KINDS[panel.kind].x_scale, shown[~shown["right"]]
    tried = sorted(shown["x"].unique())
    if scale == "words":
        is_log = _is_wide([*left["y_low"], *left["y_high"]], _MANY_TIMES["words"])
    else:
        is_log = not panel.higher_is_better and _is_wide(left["y"], _MANY_TIMES["curves"])
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


# --- bars ---


def bars(ax: Any, panel: Panel) -> Entries:
    """Bars in groups: values with their standard deviations, and medians."""
    shown, cut = panel.of(POINT, kinds.DIVERGED, kinds.MISSING), KINDS[panel.kind].cut
    medians = {(row.series, row.x): row.y for row in _each(panel.of(kinds.MEDIAN))}
    named = all(row.x == display_name(row.optimizer) for row in _each(shown))
    rotation = 90 if len(shown) > _MOST_UPRIGHT else 0
    text = {"ha": "center", "va": "bottom", "textcoords": "offset points", "size": SMALL, "zorder": 4}
    empty = {"xycoords": ax.get_xaxis_transform(), "color": GREY, "rotation": 90}
    entries: Entries = {}
    groups = list(dict.fromkeys(shown["x"]))
    for place, group in enumerate(groups):
        own = shown[shown["x"] == group]
        width = _WIDTH / len(own)
        for number, row in enumerate(_each(own)):
            x = place + width * (number - (len(own) - 1) / 2)
            if row.y != row.y:  # a word in its place says why
                ax.annotate(row.text, (x, 0), (0, 3), **text | empty)
                continue
            face = _face(row.optimizer, row.source)
            ax.bar(x, row.y, width * 0.92, **face)
            sd = 0.0 if row.y_sd != row.y_sd else row.y_sd
            if row.y_sd == row.y_sd:
                ax.errorbar(x, row.y, sd, color="0.15", capsize=3, linewidth=1.1)
            if (row.series, group) in medians:
                ax.plot(x, medians[row.series, group], **_MEDIAN)
                entries["median"] = Line2D([], [], **_MEDIAN)
            if cut:
                ax.annotate(f"{row.y:.2f}", (x, row.y + sd), (0, 2), rotation=rotation, **text)
            if not named:  # else the axis says which optimizer it is
                entries[row.optimizer, row.source] = Patch(**face)
    if named and (shown["source"] == PUBLISHED).any():
        entries["published"] = Patch(facecolor=mixed(GREY, 0.25, 1.0), edgecolor=GREY, linewidth=0.8)
    ax.set_xlim(-0.6, len(groups) - 0.4)
    if cut:  # the bars differ by little; the axis has room for the values above them
        spread = shown["y_sd"].fillna(0.0)
        low, high = (shown["y"] - spread).min(), (shown["y"] + spread).max()
        apart = (high - low) or abs(high) or 1.0
        ax.set_ylim(low - 0.15 * apart, high + (0.32 if rotation else 0.14) * apart)
    _label_groups(ax, groups)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(panel.y_label)
    return entries


def _face(optimizer: str, source: str) -> Style:
    colour, light = optimizer_style(optimizer)["color"], source == PUBLISHED
    face = {"facecolor": mixed(colour, 0.25, 1.0), "edgecolor": colour}
    face = face if light else {"facecolor": colour, "edgecolor": "white"}
    return face | {"hatch": hatch(optimizer), "linewidth": 0.8}


def _label_groups(ax: Any, groups: Sequence[str]) -> None:
    """Long names are broken; if they still do not fit side by side they are turned."""
    spec = ax.get_subplotspec()
    columns = spec.get_geometry()[1] if spec is not None else 1
    fitting = (ax.figure.get_figwidth() / columns - _BESIDE) / _LETTER
    broken = [group.replace("+", "\n+") for group in groups]
    shorter = ["\n-".join(name.rsplit("-", 1)) for name in broken]
    for labels in (groups, broken, shorter):
        if max(len(line) for label in labels for line in label.splitlines()) * len(labels) <= fitting:
            ax.set_xticks(range(len(groups)), labels)
            return
    ax.set_xticks(range(len(groups)), groups, rotation=35, ha="right", rotation_mode="anchor")


# --- a row per optimizer ---


def rows(ax: Any, panel: Panel) -> Entries:
    """A row per optimizer, the first on top: name, ranges, single runs, a mark, and a text at the right."""
    kind, entries = KINDS[panel.kind], Entries()
    shown = panel.of(MARK, SPAN, kinds.DOT, kinds.MISSED)
    marks = shown[shown["role"] == MARK]
    names = list(dict.fromkeys(shown["optimizer"]))
    beyond = set(marks.loc[_beyond(panel, marks["y"]), "optimizer"])
    near = shown[~shown["optimizer"].isin(beyond)]
    spans = list(dict.fromkeys(shown.loc[shown["role"] == SPAN, "text"]))
    widths = dict.fromkeys(spans, _THICK) | dict.fromkeys(spans[:1], _THIN)
    arrow: Style = _BEYOND | {"marker": "<" if panel.higher_is_better else ">"}
    end = 0.02 if panel.higher_is_better else 0.98
    for row in _each(shown):
        place, own = names.index(row.optimizer), {"color": optimizer_style(row.optimizer)["color"]}
        if row.optimizer in beyond:
            if row.role == MARK:
                ax.plot([end], [place], transform=ax.get_yaxis_transform(), zorder=4, **arrow, **own)
        elif row.role == SPAN:
            ax.hlines(place, row.y_low, row.y_high, linewidth=widths[row.text], zorder=2, **own)
            for is_open, x, marker in zip(row.ends, (row.y_low, row.y_high), "<>", strict=True):
                if is_open:
                    ax.plot([x], [place], marker=marker, zorder=3, **_ARROW, **own)
        elif row.y == row.y:
            ax.plot([row.y], [place], **own | _IN_ROWS[row.role])
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
        if shown.loc[shown["role"] == role, "y"].notna().any():
            entries[kind.words[role]] = Line2D([], [], **Style(color=GREY) | style)
    if beyond:
        entries["beyond the axis"] = Line2D([], [], color=GREY, **arrow)
    for name, width in widths.items():
        entries[name] = Line2D([], [], color=GREY, linewidth=width, solid_capstyle="butt")
    if any(any(ends) for ends in shown["ends"]):
        entries["nothing worse was tried beyond"] = Line2D([], [], color=GREY, **_ARROW | {"marker": ">"})
    return entries


# --- points with names ---


def points(ax: Any, panel: Panel) -> Entries:
    """Points with their spreads and names, the front of the best ones, and what others assume of them.

    Of many costs only those on the front have a name and a colour; the rest is grey.
    """
    entries: Entries = {}
    shown, front = panel.of(POINT, SHOWN), panel.of(kinds.FRONT)
    shown["x"] = shown["x"].astype(float)
    far, best = _beyond(panel, shown["y"]), shown["text"].isin(front["text"])
    named = best | (len(shown) <= _MOST_NAMED or not len(front))
    for row in _each(shown[named & ~far]):
        style = _look_of_point(row)
        _range(ax, row, row.y, style["color"])
        ax.errorbar(row.x, row.y, row.y_sd, elinewidth=0.7, zorder=3, **style)
        if row.role == SHOWN or not row.optimizer:
            said = "mean shown to be below 3.28" if row.role == SHOWN else "not shown to be below 3.28"
            entries[said] = Line2D([], [], **style)
    for name, own in shown[named & ~far & (shown["optimizer"] != "")].groupby("optimizer", sort=False):
        colour = optimizer_style(str(name))["color"]
        ax.plot(own["x"], own["y"], color=colour, linewidth=0.6, alpha=0.7, zorder=2)
    if not named.all():
        rest = shown[~named & ~far]
        ax.plot(rest["x"], rest["y"], zorder=2, **_OTHER)
        entries["others, named in the CSV file"] = Line2D([], [], **_OTHER)
    stairs: list[tuple[float, float]] = []  # between two points of the front the cheaper one can be had
    for row in _each(front[~_beyond(panel, front["y"])]):
        stairs += [(float(row.x), stairs[-1][1])] if stairs else []
        stairs.append((float(row.x), row.y))
    if stairs:
        line: Style = {"color": GREY, "linestyle": DASHED, "linewidth": 1}
        ax.plot(*zip(*stairs, strict=True), **line)
        entries["front: nothing that costs less is better"] = Line2D([], [], **line)
    ax.margins(0.12 if stairs else 0.04)
    if KINDS[panel.kind].x_scale == "log" or _is_wide(shown["x"], _MANY_TIMES["points"]):
        ax.set_xscale("log")
    ax.set_ylim(ax.get_ylim())
    end = ax.get_ylim()[int(not panel.higher_is_better)]
    arrow = {"marker": "v" if panel.higher_is_better else "^", "clip_on": False, "zorder": 3}
    for row in _each(shown[far]):
        style = _look_of_point(row) if named[row.Index] else _OTHER
        ax.plot([row.x], [end], **style | arrow)
        entries["beyond the axis"] = Line2D([], [], color=GREY, **_BEYOND | arrow)
    entries |= _assumed(ax, panel)
    if ax.get_xscale() == "log":
        label_log(ax.xaxis)
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    written = [(row, row.y, row.text) for row in _each(shown[best & ~far])]  # the most important first
    written += [(row, end, f"{row.text}: {row.y:.4g}") for row in _each(shown[far & named])]
    written += [(row, row.y, row.text) for row in _each(shown[named & ~best & ~far])]
    labels = [Label(text, row.x, y, _look_of_point(row)["color"]) for row, y, text in written]
    alone = [((row.x, row.y), (row.x, row.y)) for row in _each(shown[~named & ~far])]
    spread = [
        ((row.x + dx, row.y + dy), (row.x - dx, row.y - dy))
        for row in _each(shown[named & ~far])
        for dx, dy in ((0.0, row.y_sd), (row.x_sd, 0.0))
        if dx + dy > 0  # not if there is none
    ]
    ax.add_artist(PointLabels(labels, [stairs, *spread, *alone], SMALL))
    at = [(row.x, end if far[row.Index] else row.y, f"{row.text}: {row.y:.4g}") for row in _each(shown)]
    setattr(ax, NAMED, at)
    return entries


def _look_of_point(row: Any) -> Style:
    if row.optimizer:
        edge = {"markeredgecolor": "white", "markeredgewidth": 0.5, "markersize": 4.5}
        return optimizer_style(row.optimizer) | edge | _NO_LINE
    style = _NO_LINE | {"marker": "o", "color": _SOLE, "markersize": 4, "markeredgewidth": 0.9}
    return style if row.role == SHOWN else style | {"markerfacecolor": "white"}


def _range(ax: Any, row: Any, y: float, colour: Any) -> None:
    """A standard deviation of x; or an interval, in grey because there are many."""
    low, high = row.x_range or (row.x - row.x_sd, row.x + row.x_sd)
    grey = {"color": "0.75", "linewidth": 0.6, "clip_on": False}
    ax.plot([low, high], [y, y], zorder=2, **(grey if row.x_range else {"color": colour, "linewidth": 0.7}))


def _assumed(ax: Any, panel: Panel) -> Entries:
    """What all points share, and a value that others assume, as places on the x axis."""
    entries: Entries = {}
    for row in _each(panel.of(kinds.BAND)):
        shade: Style = {"color": "0.85", "linewidth": 0, "zorder": 1}
        ax.axvspan(row.y_low, row.y_high, **shade)
        entries["pooled over the results, 95 % interval"] = Patch(**shade)
        entries["95 % interval of one result"] = Line2D([], [], color="0.75", linewidth=0.6)
    if panel.level is not None:
        line: Style = {"color": GREY, "linestyle": DASHED, "linewidth": 1, "zorder": 1}
        ax.axvline(panel.level, **line)
        entries[f"assumed by the rules ({panel.level:g})"] = Line2D([], [], **line)
    return entries


MARKS = {"curves": curves, "bars": bars, "rows": rows, "points": points}
