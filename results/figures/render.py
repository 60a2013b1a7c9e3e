"""A whole figure as the contents of its files. Same data, same bytes; matplotlib is imported when needed."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from results.figures import data_csv
from results.figures.draw import draw_curves, explain_marks
from results.figures.draw_bars import draw_bars
from results.figures.draw_layers import draw_layers
from results.figures.draw_pareto import draw_pareto
from results.figures.draw_rows import draw_rows
from results.figures.draw_spread import draw_spread
from results.figures.kinds import AnyPanel, BarPanel, CurvePanel, LayerPanel
from results.figures.pareto_panels import CostPanel
from results.figures.row_panel import RowPanel
from results.figures.style import GREY
from results.figures.track3_panels import SpreadPanel

REVISION = 4  # raised when the drawing changes, so that old pictures are drawn again

DRAW: dict[type, Callable[[Any, Any], None]] = {
    CurvePanel: draw_curves,
    BarPanel: draw_bars,
    LayerPanel: draw_layers,
    CostPanel: draw_pareto,
    RowPanel: draw_rows,
    SpreadPanel: draw_spread,
}

# Widths in inches of the columns of a paper, so that a figure is printed at the size at which it is drawn.
_ONE_COLUMN, _TWO_COLUMNS = 3.3, 6.9
_DPI = 200
_HEIGHT = 2.1  # of a panel without its title, unless it has its own `height`
_LINE = {"title": 0.16, "subtitle": 0.115}  # height of a line of text in inches
_SIZES = {"title": 8.5, "subtitle": 6.5}  # points
_BESIDE = 0.62  # inches that the labels of an axis take beside a panel, unless it has its own `beside`
_LEGEND_LINES, _LEGEND_LINE = 5, 0.17  # lines of a legend that the panels leave room for; inches of one more
_MOST_COLUMNS = 3  # unless a panel has its own `most_columns`
# Nothing that changes from day to day: the same figure is the same file.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def render(groups: Sequence[Sequence[AnyPanel]]) -> dict[str, bytes]:
    """The contents of the files by suffix: png, pdf and csv. Each group begins a row of panels."""
    panels = [panel for group in groups for panel in group]
    with look():
        canvas = draw(groups)
        canvas.draw_without_rendering()  # lays it out, once for all files
        canvas.set_layout_engine("none")
        pictures = {suffix: _save(canvas, suffix) for suffix in _METADATA}
    return pictures | {"csv": data_csv.write(panels).encode()}


def look() -> Any:
    """The settings of matplotlib under which figures are drawn, as a context."""
    import matplotlib.style
    import seaborn as sns

    look = sns.axes_style("ticks") | sns.plotting_context("paper")
    sizes = {"font.size": 8, "axes.labelsize": 8, "axes.titlesize": _SIZES["title"], "legend.fontsize": 7.5}
    ticks = {"xtick.labelsize": 7, "ytick.labelsize": 7}
    widths = {"xtick.major": 0.8, "ytick.major": 0.8, "xtick.minor": 0.6, "ytick.minor": 0.6}
    lines = {f"{name}.width": width for name, width in widths.items()} | {
        "hatch.linewidth": 0.6,
        "axes.linewidth": 0.8,
    }
    fixed = {"font.family": "DejaVu Sans", "pdf.fonttype": 42, "axes.grid": True, "grid.color": "0.92"}
    fixed |= {"axes.formatter.useoffset": False}  # a number that is added to all labels is overlooked
    return matplotlib.style.context(["default", look | sizes | ticks | lines | fixed])


def draw(groups: Sequence[Sequence[AnyPanel]]) -> Any:
    """The figure as matplotlib has it."""
    import seaborn as sns
    from matplotlib.figure import Figure as Canvas

    columns = max(map(_columns, groups))
    width = _ONE_COLUMN if columns == 1 else _TWO_COLUMNS
    rows = [row for group in groups for row in _rows(group, columns)]
    wrapped = [
        [_wrap(panel, width / columns - _own(panel, "beside", _BESIDE)) for panel in row] for row in rows
    ]
    heights = [
        max(_own(panel, "height", _HEIGHT) for panel in row) + max(map(_height, texts))
        for row, texts in zip(rows, wrapped, strict=True)
    ]
    canvas = Canvas(figsize=(width, sum(heights) + 0.4), layout="constrained", dpi=_DPI)
    axes = canvas.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    for line, row, texts in zip(axes, rows, wrapped, strict=True):
        for ax, panel, text in zip(line, row, texts, strict=False):
            DRAW[type(panel)](ax, panel)
            _entitle(ax, *text)
            sns.despine(ax=ax)
        for ax in line[len(row) :]:
            ax.set_axis_off()
    explain_marks(axes[-1][0], [panel for row in rows for panel in row])
    _add_legend(canvas)
    _take_as_words(canvas)
    return canvas


def _take_as_words(canvas: Any) -> None:
    """Names may hold any signs: two dollars would be a formula, which ends the drawing if it is none.

    Numbers at an axis are formulas, such as powers of ten.
    """
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter

    axes = [axis for ax in canvas.axes for axis in (ax.xaxis, ax.yaxis)]
    numbers = {
        label
        for axis in axes
        if not isinstance(axis.get_major_formatter(), FixedFormatter)
        for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))
    }
    for text in set(canvas.findobj(Text)) - numbers:
        text.set_parse_math(False)


def _columns(group: Sequence[AnyPanel]) -> int:
    """Two panels fit well beside each other, and three where that leaves no hole."""
    most = min(int(_own(panel, "most_columns", _MOST_COLUMNS)) for panel in group)
    return 3 if most == 3 and len(group) % 3 == 0 else min(2, most, len(group))


def _own(panel: AnyPanel, name: str, usual: float) -> float:
    """What a kind of panel needs for itself, else the usual size."""
    return float(getattr(panel, name, usual))


def _rows(group: Sequence[AnyPanel], columns: int) -> list[Sequence[AnyPanel]]:
    return [group[start : start + columns] for start in range(0, len(group), columns)]


def _save(canvas: Any, suffix: str) -> bytes:
    file = io.BytesIO()
    canvas.savefig(file, format=suffix, dpi=_DPI, metadata=_METADATA[suffix])
    return file.getvalue()


# --- text ---


def _wrap(panel: AnyPanel, inches: float) -> tuple[str, str]:
    """Title and subtitle in lines that are no wider than the panel."""
    title, subtitle = (
        "\n".join(part for line in text.splitlines() for part in _lines(line, _SIZES[kind], 72 * inches))
        for kind, text in (("title", panel.title), ("subtitle", panel.subtitle))
    )
    return title, subtitle


def _lines(text: str, size: float, width: float) -> list[str]:
    """A text broken between words; size and width are in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size)
    lines: list[str] = []
    for word in text.split(" "):  # not at a space that must not break
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_to_path.get_text_width_height_descent(longer, font, ismath=False)[0] <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _height(text: tuple[str, str]) -> float:
    """Of title and subtitle, in inches."""
    lines = dict(zip(_LINE, text, strict=True))
    return 0.1 + sum(_LINE[kind] * len(own.splitlines()) for kind, own in lines.items())


def _entitle(ax: Any, title: str, subtitle: str) -> None:
    """Above the panel, from its left edge."""
    below = 8 + 72 * _LINE["subtitle"] * len(subtitle.splitlines())
    ax.set_title(title, pad=below, loc="left")
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    text = ax.annotate(subtitle, (0, 1), (0, 4), size=_SIZES["subtitle"], color=GREY, **place)
    text.set_in_layout(False)  # the title keeps its place


def _add_legend(canvas: Any) -> None:
    """One legend for all panels, below them: it covers nothing."""
    entries = {
        label: handle
        for ax in canvas.axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    if not entries:
        return
    entry = 0.5 + 0.066 * max(map(len, entries))  # inches that the widest entry takes
    columns = max(1, min(len(entries), int(canvas.get_figwidth() / entry)))
    lines = -(-len(entries) // columns)
    canvas.set_figheight(canvas.get_figheight() + _LEGEND_LINE * max(0, lines - _LEGEND_LINES))
    canvas.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False)
