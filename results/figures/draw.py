"""A whole figure as the contents of its files. Same data, same bytes. Needs matplotlib."""

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure as Canvas

from htbench.harness.show.note import Note
from htbench.results.figures.caveats import is_caveat
from htbench.results.figures.kinds import KINDS, Panel
from htbench.results.figures.marks import MARKS, PUBLISHED_TOO
from htbench.results.figures.pictures import Picture
from htbench.results.figures.style import AMBER, DRAWN_BY, GREY, SMALL

# Widths in inches of the columns of a paper, so that a figure is printed at the size at which it is drawn.
_ONE_COLUMN, _TWO_COLUMNS = 3.3, 6.9
_DPI = 200
_TITLE, _CAPTION = 8, 7.5  # points
_LETTER, _LINE = 0.0078, 0.017  # inches of a letter and of a line of text, by its size in points
_BESIDE, _NAMES = 0.62, 1.6  # inches that the labels of an axis take beside a panel, and names of rows
_ROW, _AROUND = 0.14, 0.6  # inches of a row of an optimizer, and of the axis with its label
_LEGEND_LINES, _LEGEND_LINE = 3, 0.17  # lines of a legend that the panels leave room for; inches of one more
# Who drew it, and nothing that changes from day to day: the same figure is the same file.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": DRAWN_BY},
    "pdf": {"Creator": DRAWN_BY, "CreationDate": None, "Producer": None},
}
_LOOK = Path(__file__).with_name("figures.mplstyle")


def render(picture: Picture) -> dict[str, bytes]:
    """The contents of the files of a picture by suffix: png and pdf."""
    with use_look():
        canvas = draw(picture)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # it is laid out, for all files
        files = {}
        for suffix, metadata in _METADATA.items():
            file = io.BytesIO()
            canvas.savefig(file, format=suffix, dpi=_DPI, metadata=metadata)
            files[suffix] = file.getvalue()
    return files


def use_look() -> Any:
    """The settings of matplotlib under which figures are drawn, as a context."""
    return matplotlib.style.context(["default", _LOOK])


def draw(picture: Picture) -> Canvas:
    """The picture as matplotlib has it: caption, panels, legend."""
    columns = min(2, max(map(len, picture.groups)))
    width = _ONE_COLUMN if columns == 1 else _TWO_COLUMNS
    rows = [group[at : at + columns] for group in picture.groups for at in range(0, len(group), columns)]
    texts = [[_wrap(panel, picture.shared, width / columns) for panel in row] for row in rows]
    heights = [
        max(map(_panel_height, row)) + 0.12 + _LINE * _TITLE * max(sum(map(len, text)) for text in row_texts)
        for row, row_texts in zip(rows, texts, strict=True)
    ]
    caption = textwrap.wrap(picture.caption, int(width / (_LETTER * _CAPTION)))
    height = sum(heights) + _LINE * _CAPTION * len(caption) + 0.3
    canvas = Canvas(figsize=(width, height), layout="constrained", dpi=_DPI)
    canvas.suptitle("\n".join(caption), x=0.01, ha="left", size=_CAPTION)
    axes = canvas.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    for row_axes, row, row_texts in zip(axes, rows, texts, strict=True):
        room = max(len([*facts, *caveats]) for _, facts, caveats in row_texts)
        for ax, panel, text in zip(row_axes, row, row_texts, strict=False):
            MARKS[KINDS[panel.kind].mark](ax, panel)
            ax.set_xlabel(panel.labels[0])
            ax.set_ylabel(panel.labels[1])
            _add_title(ax, *text, room=room)
        for ax in row_axes[len(row) :]:
            ax.set_axis_off()
    sources = {source for panel in picture.panels for source in panel.frame["source"]}
    _add_legend(canvas, "" if len(sources) > 1 else PUBLISHED_TOO)
    return canvas


def _panel_height(panel: Panel) -> float:
    """Of a panel without its title, in inches; so much that no two rows overlap."""
    kind = KINDS[panel.kind]
    return kind.height if kind.mark != "rows" else _AROUND + _ROW * (1 + panel.frame["place"].nunique())


# --- text ---


def _wrap(panel: Panel, shared: Sequence[Note], inches: float) -> tuple[list[str], list[str], list[str]]:
    """The lines of its title, of what the caption does not say, and of its marks."""
    beside = _NAMES if KINDS[panel.kind].mark == "rows" else _BESIDE
    letters = int((inches - beside) / (_LETTER * SMALL))
    new_facts = [fact for fact in panel.about.facts if fact not in shared]
    facts = textwrap.wrap(" · ".join(str(fact) for fact in new_facts if not is_caveat(fact)), letters)
    marks = [line for fact in new_facts if is_caveat(fact) for line in textwrap.wrap(str(fact), letters)]
    return textwrap.wrap(panel.about.title, letters), facts, marks


def _add_title(ax: Any, title: Sequence[str], facts: Sequence[str], marks: Sequence[str], room: int) -> None:
    """Above the panel, from its left edge; `room` is for the most lines below a title of the row."""
    line = 72 * _LINE * SMALL
    ax.set_title("\n".join(title) or " ", pad=7 + line * room, loc="left")
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top", "size": SMALL}
    for lines, above, colour in ((facts, 0, GREY), (marks, len(facts), AMBER)):
        height = 4 + line * (room - above)
        text = ax.annotate("\n".join(lines), (0, 1), (0, height), color=colour, **place)
        text.set_in_layout(False)  # the title keeps its place


def _add_legend(canvas: Canvas, needless: str) -> None:
    """One legend for all panels, below them: it covers nothing. Labels are without a needless ending."""
    handles: dict[str, Any] = {}
    for ax in canvas.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label.removesuffix(needless), handle)
    if not handles:
        return
    widest = 0.5 + _LETTER * 7.5 * max(map(len, handles))  # inches
    columns = max(1, min(len(handles), int(canvas.get_figwidth() / widest)))
    lines = -(-len(handles) // columns)
    columns = -(-len(handles) // lines)
    canvas.set_figheight(canvas.get_figheight() + _LEGEND_LINE * max(0, lines - _LEGEND_LINES))
    canvas.legend([*handles.values()], [*handles], loc="outside lower center", ncols=columns, frameon=False)
