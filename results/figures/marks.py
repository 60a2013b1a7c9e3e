"""The three marks that panels are drawn with: curves, rows and points.

They are matplotlib's, not those of seaborn.objects, which was tried: of eight series whose colour, marker,
dashes, width and edge are mapped it looks at all 8^7 combinations (minutes for a figure), puts the ends of
horizontal ranges on a logarithmic axis elsewhere, draws bands across missing values, and has no
second axis, no place for a value beyond the axis and no legend that several panels share. What belongs into
that legend has a label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
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

_NO_LINE: Style = {"linestyle": "none"}
_RING: Style = _NO_LINE | {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.4}
_CROSS: Style = _NO_LINE | {"marker": "x", "markersize": 7, "markeredgewidth": 2}
_RANDOM: Style = _NO_LINE | {"marker": "_", "markersize": 7, "markeredgewidth": 1.4, "color": "0.55"}
_SHADE: Style = {"color": "0.93", "linewidth": 0, "zorder": 0}
_BEYOND: Style = _NO_LINE | {"markersize": 4.2, "markerfacecolor": "white"}  # worse than the axis shows
_ARROW: Style = _NO_LINE | {"markersize": 3.5}
_DIGIT: Style = _NO_LINE | {"marker": "$5$", "color": GREY, "markersize": 4.5, "markeredgewidth": 0}
_IN_ROWS: dict[str, Style] = {
    MARK: _NO_LINE | {"marker": "|", "markersize": 7, "markeredgewidth": 1.2, "color": "black", "zorder": 3},
    kinds.DOT: _NO_LINE | {"marker": "o", "markersize": 4.4, "markeredgewidth": 0.8, "zorder": 4},
    kinds.MISSED: _NO_LINE | {"marker": "x", "markersize": 4.2, "markeredgewidth": 1.2, "zorder": 4},
}
_THIN, _THICK = 1.1, 4.5  # points; of the widest range in a row, and of those within it
_MANY_TIMES = 8  # if the ratio of the largest to the smallest value is greater, an axis is logarithmic
_FEWEST = 3  # values of which none is beyond the axis
_MOST_TICKS = 24  # of words
PUBLISHED_TOO = ", published"  # in the label of a series
_MOST_MARKERS = 10  # of a curve, about
_MOST_NAMED = 8  # points of costs; of more, only the best are in the legend
_OTHER: Style = _NO_LINE | {"marker": "o", "color": "0.75", "markersize": 3, "markeredgewidth": 0}


def _list_rows(frame: pd.DataFrame) -> list[Any]:
    """The rows of a frame by the names of its columns."""
    return list(frame.itertuples())


def _is_wide(*columns: pd.Series[float]) -> bool:
    values = pd.concat(columns)
    return bool(values.max() > _MANY_TIMES * values.min() > 0)


def _find_beyond(panel: Panel, values: pd.Series[float]) -> pd.Series[bool]:
    """Which values are too bad for the axis: beyond three times the distance from the best to the median one.

    One very bad result must not squeeze all others together.
    """
    losses = -values if panel.higher_is_better else values
    spread = losses.median() - losses.min()
    is_cut = KINDS[panel.kind].cuts and losses.count() > _FEWEST and spread > 0
    return losses > (losses.min() + 3 * spread if is_cut else math.inf)


def _explain(ax: Any, label: str, **style: Any) -> None:
    """An entry of the legend; in grey, if it stands for values of several colours."""
    ax.plot([], [], label=label, in_layout=False, **Style(color=GREY) | style)


def label_series(name: str, source: str) -> str:
    """The name of a series in a legend."""
    return display_name(name) + (PUBLISHED_TOO if source == PUBLISHED else "")


# --- curves ---


def draw_curves(ax: Any, panel: Panel) -> None:
    """Series along an axis, with standard deviations and bands, and lines across it."""
    kind = KINDS[panel.kind]
    is_words = kind.x_scale == "words"
    points = panel.of(POINT, CHOSEN, kinds.LEFT_OUT, kinds.DIVERGED)
    points["x"] = points.groupby("series").cumcount() if is_words else points["x"].astype(float)
    points["right"] = points["quantity"] != panel.labels[1]
    right = ax.twinx() if points["right"].any() else ax
    diverged = points["role"] == kinds.DIVERGED
    groups: Any = points.groupby(["optimizer", "source", "right"], sort=False)
    for (optimizer, source, on_the_right), points_of_one in groups:
        several = list(points_of_one.groupby("series", sort=False))
        for number, (name, series) in enumerate(several):
            variant = number if len(several) > 1 else None
            style = series_style(optimizer, source, variant, on_the_right)
            style["markersize"] = 3.5 if is_words else 5
            style["markevery"] = max(1, len(series) // _MOST_MARKERS)
            style |= ({} if kind.markers else {"marker": None}) | ({} if kind.joined else _NO_LINE)
            _explain(ax, label_series(str(name), source), **style)
            values = series[~diverged[series.index]]
            _draw_curve(right if on_the_right else ax, values, style, is_words or kind.whiskers)
    points["depth"] = 0.03 + 0.06 * points[diverged].groupby("x").cumcount()  # all of them stay visible
    for row in _list_rows(points[diverged]):
        colour = optimizer_style(row.optimizer)["color"]
        place = {"transform": ax.get_xaxis_transform(), "clip_on": False, "markeredgecolor": colour}
        ax.plot([row.x], [row.depth if panel.higher_is_better else 1 - row.depth], **_CROSS, **place)
    _draw_levels(ax, right, panel)
    _draw_laws(ax, panel)
    if (points["role"] == CHOSEN).any():
        _explain(ax, "chosen", **_RING)
    if diverged.any():
        _explain(ax, "diverged", **_CROSS)
    for side in {ax, right}:
        side.margins(0.08 if kind.markers else 0.02)
    if is_words:
        _draw_words(ax, panel, points)
    _scale_curves(ax, panel, points)
    if right is not ax:
        right.set_ylabel(points.loc[points["right"], "quantity"].iloc[0])
        right.grid(visible=False)
        right.spines["right"].set_visible(True)


def _draw_curve(ax: Any, points: pd.DataFrame, style: Mapping[str, Any], has_whiskers: bool) -> None:
    x, y, sd, low, high = (points[name] for name in ("x", "y", "y_sd", "y_low", "y_high"))
    colour = style["color"]
    spread = sd.fillna(0.0) if style["marker"] and not has_whiskers and (sd > 0).any() else None
    ax.errorbar(x, y, yerr=spread, elinewidth=1, capsize=2, **style)
    if low.notna().any():
        ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    if has_whiskers:  # a point without neighbours has no band
        ax.vlines(x, low, high, color=colour, alpha=0.5, linewidth=1)
    chosen = points[points["role"] == CHOSEN]
    ax.plot(chosen["x"], chosen["y"], **_RING, markeredgecolor=colour)


def _draw_levels(ax: Any, right: Any, panel: Panel) -> None:
    """Horizontal lines: what an optimizer reaches that has no value on the axis."""
    for row in _list_rows(panel.of(kinds.LEVEL)):
        on_the_right = row.quantity != panel.labels[1]
        is_grey = on_the_right or not row.optimizer
        colour = GREY if is_grey else optimizer_style(row.optimizer)["color"]
        style: Style = {"color": colour, "linestyle": DOTTED if on_the_right else DASHED}
        style |= {"linewidth": 0.8 if is_grey else 1.1, "zorder": 1}
        style["label"] = label_series(row.series, row.source)
        (right if on_the_right else ax).axhline(row.y, **style)


def _draw_laws(ax: Any, panel: Panel) -> None:
    """Fitted curves, and arrows where a value lies beyond what was observed."""
    for name, law in panel.of(kinds.LAW).groupby("optimizer", sort=False):
        style: Style = {"linestyle": DASHED, "linewidth": 0.9, "zorder": 1}
        ax.plot(law["x"], law["y"], color=optimizer_style(str(name))["color"], **style)
        _explain(ax, "law", **style)
    for row in _list_rows(panel.of(kinds.ABOVE, kinds.BELOW)):
        style = optimizer_style(row.optimizer)
        up = 1 if row.role == kinds.ABOVE else -1
        ax.plot([row.x], [row.y], zorder=4, **style | _BEYOND)
        arrow = {"arrowstyle": "<-", "color": style["color"], "shrinkA": 0, "shrinkB": 2}
        ax.annotate("", (row.x, row.y), (0, 15 * up), "data", "offset points", arrowprops=arrow)
        _explain(ax, "an arrow: beyond what was observed", marker=6, **_ARROW)


def _draw_words(ax: Any, panel: Panel, points: pd.DataFrame) -> None:
    """A place on the axis for each layer, the random matrix in it, and a shade where no mean has it."""
    random = panel.of(kinds.RANDOM)
    for place in points.loc[points["role"] == kinds.LEFT_OUT, "x"].unique():
        ax.axvspan(place - 0.5, place + 0.5, label="not in means", **_SHADE)
    if len(random):
        ax.plot(range(len(random)), random["y"], zorder=1.5, label="random matrix", **_RANDOM)
    labels = list(panel.frame.loc[panel.frame["series"] == points["series"].iloc[0], "x"])
    if points["y"].isna().all():  # an axis of nothing
        ax.set_yticks([])
    step = math.ceil(len(labels) / _MOST_TICKS)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    ax.set_xticks(range(0, len(labels), step), labels[::step])
    if len(labels) // step > 12 or not all(label.isdigit() for label in labels):
        ax.tick_params(axis="x", rotation=90, labelsize=SMALL)


def _scale_curves(ax: Any, panel: Panel, points: pd.DataFrame) -> None:
    scale, left_axis = KINDS[panel.kind].x_scale, points[~points["right"]]
    tried = sorted(points["x"].unique())
    is_log = not panel.higher_is_better and _is_wide(left_axis["y"])
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


# --- rows ---


def draw_rows(ax: Any, panel: Panel) -> None:
    """A row per optimizer, the first on top: name, ranges, single values, a mark, and a text at the right."""
    kind, drawn = KINDS[panel.kind], panel.of(*_IN_ROWS, SPAN)
    names = list(dict.fromkeys(drawn["place"]))
    marks = drawn[drawn["role"] == MARK]
    beyond = set(marks.loc[_find_beyond(panel, marks["y"]), "place"])
    near = drawn[~drawn["place"].isin(beyond)]
    spans = list(dict.fromkeys(drawn.loc[drawn["role"] == SPAN, "text"]))
    widths = dict.fromkeys(spans, _THICK) | dict.fromkeys(spans[:1], _THIN)
    arrow: Style = _BEYOND | {"marker": "<" if panel.higher_is_better else ">"}
    end = 0.02 if panel.higher_is_better else 0.98
    for row in _list_rows(drawn):
        place, colour = names.index(row.place), {"color": optimizer_style(row.optimizer)["color"]}
        if row.place in beyond:
            if row.role == MARK:
                ax.plot([end], [place], transform=ax.get_yaxis_transform(), zorder=4, **arrow, **colour)
        elif row.role == SPAN:
            ax.hlines(place, row.y_low, row.y_high, linewidth=widths[row.text], zorder=2, **colour)
            for is_open, x, marker in zip(row.ends, (row.y_low, row.y_high), "<>", strict=True):
                if is_open:
                    ax.plot([x], [place], marker=marker, zorder=3, **_ARROW, **colour)
        elif row.y == row.y:
            style = series_style(row.optimizer, row.source) if row.role == kinds.DOT else colour
            ax.errorbar(row.y, place, xerr=row.y_sd, elinewidth=_THIN, **style | _IN_ROWS[row.role])
    words = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
    texts = drawn.loc[drawn["role"] != SPAN].groupby("place", sort=False)["text"].first()
    for place, text in enumerate([kind.words[""], *texts], -1):  # the heading has a row, too
        ax.annotate(text, (1, place), (2, 0), size=SMALL, color=GREY, annotation_clip=False, **words)
    ax.set_ylim(len(names) - 0.4, -1.4)
    ax.set_yticks(range(len(names)), names, size=SMALL)
    ax.tick_params(axis="y", length=0, pad=1)
    ax.grid(visible=False, axis="y")
    ax.margins(x=0.08)
    if kind.x_scale == "log" or _is_wide(near["y"], near["y_low"], near["y_high"]):
        ax.set_xscale("log")
        label_log(ax.xaxis)
    values = drawn[drawn["y"].notna()]
    is_published = (values["role"] == kinds.DOT) & (values["source"] == PUBLISHED)
    for role, style in _IN_ROWS.items():
        if (values.loc[~is_published, "role"] == role).any():
            _explain(ax, kind.words[role], **style)
    if is_published.any():
        _explain(ax, "published", **_IN_ROWS[kinds.DOT] | {"markerfacecolor": "white"})
    if beyond:
        _explain(ax, "beyond the axis", **arrow)
    for name, width in widths.items():
        _explain(ax, name, linewidth=width, solid_capstyle="butt")
    if any(any(ends) for ends in drawn["ends"]):
        _explain(ax, "nothing worse was tried beyond", marker=">", **_ARROW)


# --- points ---


def draw_points(ax: Any, panel: Panel) -> None:
    """Points with their spreads, and the front of the best ones. Of many only the front is told apart."""
    drawn, front = panel.of(POINT), panel.of(kinds.FRONT)
    drawn["x"] = drawn["x"].astype(float)
    far, best = _find_beyond(panel, drawn["y"]), drawn["series"].isin(front["text"])
    is_named = best | (len(drawn) <= _MOST_NAMED)
    for row in _list_rows(drawn[is_named]):
        _explain(ax, label_series(row.optimizer, row.source), **_point_style(row))
    for row in _list_rows(drawn[~far & is_named]):
        ax.errorbar(row.x, row.y, row.y_sd, row.x_sd, elinewidth=0.7, zorder=3, **_point_style(row))
        if row.text:
            ax.annotate(row.text, (row.x, row.y), (3, 2), textcoords="offset points", size=SMALL, zorder=4)
    for name, line_points in drawn[~far & is_named].groupby("optimizer", sort=False):
        colour = optimizer_style(str(name))["color"]
        ax.plot(line_points["x"], line_points["y"], color=colour, linewidth=0.6, alpha=0.7, zorder=2)
    ax.plot(drawn.loc[~far & ~is_named, "x"], drawn.loc[~far & ~is_named, "y"], zorder=3, **_OTHER)
    line: Style = {"linestyle": DASHED, "linewidth": 1}
    stairs = front[~front["text"].isin(drawn.loc[far, "series"])]
    # between two of the front the cheaper one can be had
    ax.step(stairs["x"].astype(float), stairs["y"], where="post", color=GREY, **line)
    ax.margins(0.12)
    if _is_wide(drawn["x"]):
        ax.set_xscale("log")
        label_log(ax.xaxis)
    ax.set_ylim(ax.get_ylim())
    end = ax.get_ylim()[int(not panel.higher_is_better)]
    arrow = {"marker": "v" if panel.higher_is_better else "^", "clip_on": False, "zorder": 3}
    for row in _list_rows(drawn[far]):
        ax.plot([row.x], [end], **(_point_style(row) if is_named[row.Index] else _OTHER) | arrow)
    if not is_named.all():
        _explain(ax, "others, named in the CSV file", **_OTHER)
    if far.any():
        _explain(ax, "beyond the axis", **_BEYOND | arrow)
    _explain(ax, "front: nothing cheaper is better", **line)
    if (drawn.loc[is_named & ~far, "text"] != "").any():
        _explain(ax, "interval", **_DIGIT)


def _point_style(row: Any) -> Style:
    return series_style(row.optimizer, row.source) | _NO_LINE | {"markersize": 5}


MARKS = {"curves": draw_curves, "rows": draw_rows, "points": draw_points}
