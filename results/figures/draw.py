"""A whole figure as the contents of its files. Same data, same bytes. Needs matplotlib and seaborn."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedFormatter

from results.figures.kinds import KINDS, Panel, csv_text
from results.figures.marks import MARKS
from results.figures.style import GREY, display_name

# Widths in inches of the columns of a paper, so that a figure is printed at the size at which it is drawn.
_ONE_COLUMN, _TWO_COLUMNS = 3.3, 6.9
_DPI = 200
_LINE = {"title": 0.16, "subtitle": 0.115}  # height of a line of text in inches
_SIZES = {"title": 8.5, "subtitle": 6.5}  # points
_BESIDE = 0.62  # inches that the labels of an axis take beside a panel
_ROW, _AROUND = 0.135, 0.6  # inches of a row of an optimizer, and of the axis with its label
_LETTER, _MARGIN = 0.055, 0.35  # inches of a letter of the name of a row, and around it
_LEGEND_LINES, _LEGEND_LINE = 5, 0.17  # lines of a legend that the panels leave room for; inches of one more
# Nothing that changes from day to day: the same figure is the same file.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def render(groups: Sequence[Sequence[Panel]]) -> dict[str, bytes]:
    """The contents of the files by suffix: png, pdf and csv. Each group begins a row of panels."""
    with look():
        canvas = draw(groups)
        canvas.draw_without_rendering()  # lays it out, once for all files
        canvas.set_layout_engine("none")
        files = {}
        for suffix, metadata in _METADATA.items():
            file = io.BytesIO()
            canvas.savefig(file, format=suffix, dpi=_DPI, metadata=metadata)
            files[suffix] = file.getvalue()
    return files | {"csv": csv_text(panel for group in groups for panel in group).encode()}


def look() -> Any:
    """The settings of matplotlib under which figures are drawn, as a context."""
    import seaborn as sns

    style = sns.axes_style("ticks") | sns.plotting_context("paper")
    style |= {"font.size": 8, "axes.labelsize": 8, "axes.titlesize": _SIZES["title"], "legend.fontsize": 7.5}
    style |= {"xtick.labelsize": 7, "ytick.labelsize": 7, "hatch.linewidth": 0.6, "axes.linewidth": 0.8}
    style |= {f"{axis}tick.major.width": 0.8 for axis in "xy"} | {
        f"{axis}tick.minor.width": 0.6 for axis in "xy"
    }
    style |= {"font.family": "DejaVu Sans", "pdf.fonttype": 42, "axes.grid": True, "grid.color": "0.92"}
    style |= {"axes.formatter.useoffset": False}  # a number that is added to all labels is overlooked
    return matplotlib.style.context(["default", style])


def draw(groups: Sequence[Sequence[Panel]]) -> Canvas:
    """The figure as matplotlib has it.

    Facets of seaborn all have one height, and their titles one line; ours have rows of optimizers, and texts
    of several lines.
    """
    import seaborn as sns  # loads scipy.stats, for a second

    columns = max(map(_columns, groups))
    width = _ONE_COLUMN if columns == 1 else _TWO_COLUMNS
    rows = [group[start : start + columns] for group in groups for start in range(0, len(group), columns)]
    texts = [[_wrap(panel, width / columns - _beside(panel)) for panel in row] for row in rows]
    heights = [
        max(map(_height, row)) + max(_height_of_text(*text) for text in own)
        for row, own in zip(rows, texts, strict=True)
    ]
    canvas = Canvas(figsize=(width, sum(heights) + 0.4), layout="constrained", dpi=_DPI)
    axes = canvas.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    entries: dict[str, Any] = {}
    for line, row, own in zip(axes, rows, texts, strict=True):
        for ax, panel, text in zip(line, row, own, strict=False):
            found = MARKS[KINDS[panel.kind].mark](ax, panel)
            entries |= {label: handle for label, handle in found.items() if label not in entries}
            _entitle(ax, *text)
            sns.despine(ax=ax)
        for ax in line[len(row) :]:
            ax.set_axis_off()
    _add_legend(canvas, entries)
    _take_as_words(canvas)
    return canvas


def _take_as_words(canvas: Canvas) -> None:
    """Names may hold any signs: two dollars would be a formula, which ends the drawing if it is none.

    Numbers at an axis are formulas, such as powers of ten.
    """
    axes = [axis for ax in canvas.axes for axis in (ax.xaxis, ax.yaxis)]
    numbers = {
        label
        for axis in axes
        if not isinstance(axis.get_major_formatter(), FixedFormatter)
        for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))
    }
    for text in set(canvas.findobj(Text)) - numbers:
        text.set_parse_math(False)


# --- sizes ---


def _columns(group: Sequence[Panel]) -> int:
    """Two panels fit well beside each other, and three where that leaves no hole."""
    most = min(KINDS[panel.kind].most_columns for panel in group)
    return 3 if most == 3 and len(group) % 3 == 0 else min(2, most, len(group))


def _height(panel: Panel) -> float:
    """Of a panel without its title, in inches; so much that no two rows overlap."""
    kind = KINDS[panel.kind]
    return kind.height if kind.mark != "rows" else _AROUND + _ROW * (1 + panel.frame["optimizer"].nunique())


def _beside(panel: Panel) -> float:
    """Inches that the labels at the left take."""
    if KINDS[panel.kind].mark != "rows":
        return _BESIDE
    return _MARGIN + _LETTER * max(len(display_name(name)) for name in panel.frame["optimizer"].unique())


def _height_of_text(title: str, subtitle: str) -> float:
    lines = {"title": title, "subtitle": subtitle}
    return 0.1 + sum(_LINE[kind] * len(text.splitlines()) for kind, text in lines.items())


# --- text ---


def _wrap(panel: Panel, inches: float) -> tuple[str, str]:
    """Title and subtitle in lines that are no wider than the panel, broken between words."""
    texts = []
    for kind, text in (("title", panel.title), ("subtitle", panel.subtitle)):
        font = FontProperties(size=_SIZES[kind])
        broken: list[str] = []
        for line in text.splitlines():
            broken.append("")
            for word in line.split(" "):  # not at a space that must not break
                longer = f"{broken[-1]} {word}" if broken[-1] else word
                width = text_to_path.get_text_width_height_descent(longer, font, ismath=False)[0]
                if broken[-1] and width > 72 * inches:
                    broken.append(word)
                else:
                    broken[-1] = longer
        texts.append("\n".join(broken))
    return texts[0], texts[1]


def _entitle(ax: Any, title: str, subtitle: str) -> None:
    """Above the panel, from its left edge."""
    below = 8 + 72 * _LINE["subtitle"] * len(subtitle.splitlines())
    ax.set_title(title, pad=below, loc="left")
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    text = ax.annotate(subtitle, (0, 1), (0, 4), size=_SIZES["subtitle"], color=GREY, **place)
    text.set_in_layout(False)  # the title keeps its place


def _add_legend(canvas: Canvas, entries: dict[str, Any]) -> None:
    """One legend for all panels, below them: it covers nothing. seaborn has one for each panel, beside it."""
    if not entries:
        return
    entry = 0.5 + 0.066 * max(map(len, entries))  # inches that the widest entry takes
    columns = max(1, min(len(entries), int(canvas.get_figwidth() / entry)))
    lines = -(-len(entries) // columns)
    canvas.set_figheight(canvas.get_figheight() + _LEGEND_LINE * max(0, lines - _LEGEND_LINES))
    handles, labels = list(entries.values()), list(entries)
    canvas.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
