"""A whole figure as the contents of its files. Same data, same bytes. Needs matplotlib."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.results.figures.kinds import KINDS, PUBLISHED, RUNS, Panel
from htbench.results.figures.marked import is_mark
from htbench.results.figures.marks import MARKS
from htbench.results.figures.pictures import Picture
from htbench.results.figures.style import AMBER, DRAWN_BY, GREY, SMALL, display_name

# Widths in inches of the columns of a paper, so that a figure is printed at the size at which it is drawn.
_ONE_COLUMN, _TWO_COLUMNS = 3.3, 6.9
_DPI = 200
Texts = tuple[list[str], list[str], list[str]]  # lines of the title, of facts and of marks
_TITLE, _CAPTION = 8, 7.5  # points
_LETTER, _LINE = 0.0078, 0.017  # inches of a letter and of a line of text, by its size in points
_BESIDE = 0.62  # inches that the labels of an axis take beside a panel
_ROW, _AROUND = 0.14, 0.6  # inches of a row of an optimizer, and of the axis with its label
_LEGEND_LINES, _LEGEND_LINE = 3, 0.17  # lines of a legend that the panels leave room for; inches of one more
# Who drew it, and nothing that changes from day to day: the same figure is the same file.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": DRAWN_BY},
    "pdf": {"Creator": DRAWN_BY, "CreationDate": None, "Producer": None},
}
_LOOK = {
    **{"font.family": "DejaVu Sans", "font.size": 8, "axes.labelsize": 7.5, "axes.titlesize": _TITLE},
    **{"xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "legend.fontsize": 7.5, "pdf.fonttype": 42},
    **{"axes.grid": True, "grid.color": "0.92", "grid.linewidth": 0.8, "axes.axisbelow": True},
    **{"axes.linewidth": 0.8, "axes.edgecolor": "0.15", "axes.labelcolor": "0.15", "text.color": "0.15"},
    **{f"axes.spines.{side}": False for side in ("top", "right")},
    **{f"{axis}tick.color": "0.15" for axis in "xy"},
    **{f"{axis}tick.major.width": 0.8 for axis in "xy"},
    **{f"{axis}tick.minor.width": 0.6 for axis in "xy"},
    **{"lines.markersize": 4.8, "lines.solid_capstyle": "round", "hatch.linewidth": 0.6},
    "text.parse_math": False,  # names may hold any signs: two dollars would be a formula, or end the drawing
    "axes.formatter.useoffset": False,  # a number that is added to all labels is overlooked
}


def render(picture: Picture) -> dict[str, bytes]:
    """The contents of the files of a picture by suffix: png and pdf."""
    with look():
        canvas = draw(picture)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # it is laid out, for all files
        files = {}
        for suffix, metadata in _METADATA.items():
            file = io.BytesIO()
            canvas.savefig(file, format=suffix, dpi=_DPI, metadata=metadata)
            files[suffix] = file.getvalue()
    return files


def look() -> Any:
    """The settings of matplotlib under which figures are drawn, as a context."""
    return matplotlib.style.context(["default", _LOOK])


def draw(picture: Picture) -> Canvas:
    """The picture as matplotlib has it: caption, panels, legend."""
    columns = min(2, max(map(len, picture.groups)))
    width = _ONE_COLUMN if columns == 1 else _TWO_COLUMNS
    rows = [row for group in picture.groups for row in _rows(group, columns)]
    inches = width / columns - _beside(picture.panels)
    texts = [_texts(row, picture.shared, inches) for row in rows]
    heights = [
        max(map(_height, row)) + max(_height_of_text(*text) for text in own)
        for row, own in zip(rows, texts, strict=True)
    ]
    caption = _wrap(picture.caption, _CAPTION, 0.97 * width)
    height = sum(heights) + _LINE * _CAPTION * len(caption) + 0.3
    canvas = Canvas(figsize=(width, height), layout="constrained", dpi=_DPI)
    canvas.suptitle("\n".join(caption), x=0.01, ha="left", size=_CAPTION)
    axes = canvas.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    entries: dict[Any, Any] = {}
    for line, row, own in zip(axes, rows, texts, strict=True):
        for ax, panel, text in zip(line, row, own, strict=False):
            found = MARKS[KINDS[panel.kind].mark](ax, panel)
            entries |= {label: handle for label, handle in found.items() if label not in entries}
            _entitle(ax, *text, room=max(len([*facts, *marks]) for _, facts, marks in own))
        for ax in line[len(row) :]:
            ax.set_axis_off()
    _add_legend(canvas, entries)
    return canvas


# --- sizes ---


def _rows(group: Sequence[Panel], columns: int) -> list[list[Panel]]:
    """The panels in rows; those of a workload stay together if they can."""
    rows: list[list[Panel]] = []
    for own in grouped(group, lambda panel: panel.about.title).values():
        for start in range(0, len(own), columns):
            part = own[start : start + columns]
            row = next((row for row in rows if len(row) + len(part) <= columns), None)
            if row is None:
                rows.append(row := [])
            row += part
    return rows


def _height(panel: Panel) -> float:
    """Of a panel without its title, in inches; so much that no two rows overlap."""
    kind = KINDS[panel.kind]
    return kind.height if kind.mark != "rows" else _AROUND + _ROW * (1 + panel.frame["optimizer"].nunique())


def _beside(panels: Iterable[Panel]) -> float:
    """Inches that the labels at the left take."""
    names = [
        display_name(name)
        for panel in panels
        if KINDS[panel.kind].mark == "rows"
        for name in panel.frame["optimizer"].unique()
    ]
    return max(_BESIDE, 0.15 + _LETTER * SMALL * max(map(len, names), default=0))


def _height_of_text(title: Sequence[str], facts: Sequence[str], marks: Sequence[str]) -> float:
    return 0.12 + _LINE * (_TITLE * len(title) + SMALL * len([*facts, *marks]))


# --- text ---


def _texts(row: Sequence[Panel], shared: Sequence[Note], inches: float) -> list[Texts]:
    """Of each panel the lines of its title, of what the caption does not say, and of its marks.

    What stands above its left neighbour of the same title is not said again.
    """
    texts = []
    known: tuple[str, set[Note]] = ("", set())
    for panel in row:
        title = panel.about.title
        above = {*shared, *(known[1] if title == known[0] else ())}
        own = [fact for fact in panel.about.facts if fact not in above]
        facts = [str(fact) for fact in own if not is_mark(fact)]
        marks = [line for fact in own if is_mark(fact) for line in _wrap(str(fact), SMALL, inches)]
        own_title = _wrap(title if title != known[0] else "", _TITLE, inches)
        texts.append((own_title, _wrap(" · ".join(facts), SMALL, inches), marks))
        known = title, {*panel.about.facts}
    return texts


def _wrap(text: str, size: float, inches: float) -> list[str]:
    """The text in lines that are no wider than that, broken between words."""
    font = FontProperties(size=size)
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        width = text_to_path.get_text_width_height_descent(longer, font, ismath=False)[0]
        if lines and width <= 72 * inches:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _entitle(ax: Any, title: Sequence[str], facts: Sequence[str], marks: Sequence[str], room: int) -> None:
    """Above the panel, from its left edge; `room` is for the most lines below a title of the row."""
    line = 72 * _LINE * SMALL
    ax.set_title("\n".join(title) or " ", pad=7 + line * room, loc="left")
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top", "size": SMALL}
    for lines, above, colour in ((facts, 0, GREY), (marks, len(facts), AMBER)):
        height = 4 + line * (room - above)
        text = ax.annotate("\n".join(lines), (0, 1), (0, height), color=colour, **place)
        text.set_in_layout(False)  # the title keeps its place


def _add_legend(canvas: Canvas, entries: dict[Any, Any]) -> None:
    """One legend for all panels, below them: it covers nothing. Sources are told apart if there are both."""
    if not entries:
        return
    named = [entry for entry in entries if isinstance(entry, tuple)]
    both = {source for _, source in named} >= {RUNS, PUBLISHED}
    labels = [
        entry
        if isinstance(entry, str)
        else display_name(entry[0]) + ", published" * (both and entry[1] == PUBLISHED)
        for entry in entries
    ]
    widest = 0.5 + _LETTER * 7.5 * max(map(len, labels))  # inches
    columns = max(1, min(len(labels), int(canvas.get_figwidth() / widest)))
    lines = -(-len(labels) // columns)
    columns = -(-len(labels) // lines)
    canvas.set_figheight(canvas.get_figheight() + _LEGEND_LINE * max(0, lines - _LEGEND_LINES))
    canvas.legend([*entries.values()], labels, loc="outside lower center", ncols=columns, frameon=False)
