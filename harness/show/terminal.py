"""Reports on a screen: fitted to the width of a terminal, with colours where it has them; plain in a pipe.

rich draws; what fits is decided here. It has no columns that leave by importance, and it would cut numbers.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from htbench.harness.show.harmless import in_a_line, obeyed, visible
from htbench.harness.show.note import Note
from htbench.harness.show.report import CHOSEN, Cell, Column, Report, Section, legend, shared, without
from htbench.harness.show.status import Status

_JSON, _WIDE = "--json has all", "--wide has all"  # where a screen leaves columns out
_PIPE = 80  # columns of an explanation where nothing tells a width
_COMMAND = re.compile("`[^`]*`")
_SPACE = "\x00"  # never in a line: `in_a_line` has shown it


@dataclass(frozen=True)
class Line:
    """A line of a screen.

    Attributes:
        text: without colours.
        styles: which of its characters, from one index to another, have a style of rich.
    """

    text: str
    styles: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class ScreenOptions:
    """How much of a report a screen shows.

    Attributes:
        width: columns of the terminal; None: a pipe, which is as wide as it needs to be.
        wide: all columns, however wide; else each section's brief form, fitted. None: nobody can ask for it.
        notes: all notes, below what protects from a false conclusion, in short; else that alone.
    """

    width: int | None = None
    wide: bool | None = None
    notes: bool = True

    @property
    def room(self) -> int | None:
        """What the columns of a table have to fit into; None: anything."""
        return None if self.wide else self.width

    @property
    def more(self) -> str:
        """Where the columns are that are left out."""
        return _JSON if self.wide is None else _WIDE

    def of(self, section: Section) -> Section:
        """What is shown of a section; the answer stands above it in either form."""
        brief = section.brief or section
        return replace(section, above=brief.above) if self.wide else brief


def write(
    reports: Sequence[Report], *, wide: bool | None = None, notes: bool = True, width: int | None = None
) -> str:
    """Reports as plain text; `wide`, `notes` and `width` as in `ScreenOptions`."""
    return "".join(f"{line.text}\n" for line in _write_screen(reports, ScreenOptions(width, wide, notes)))


def show(
    reports: Sequence[Report], stream: TextIO | None = None, *, wide: bool | None = None, notes: bool = True
) -> None:
    """Print reports to a stream (standard output): fitted and coloured on a terminal, else plain.

    Args:
        reports: at least one.
        stream: where to.
        wide, notes: as in `ScreenOptions`.
    """
    stream = stream or sys.stdout
    width = terminal_width(stream)
    if width is None:
        stream.write(write(reports, wide=wide, notes=notes))
    else:
        from rich.console import Console
        from rich.text import Text

        lines = _write_screen(reports, ScreenOptions(width, wide, notes))
        widest = max((len(line.text) for line in lines), default=width)
        # knows NO_COLOR and what TERM can do
        console = Console(file=stream, width=max(width, widest), highlight=False)
        with obeyed(stream):
            for line in lines:
                text = Text(line.text, no_wrap=True, overflow="ignore")
                if not console.no_color:  # rich keeps bold
                    for pattern, style in _STYLES:
                        text.highlight_regex(pattern, style)
                    for start, end, style in line.styles:
                        text.stylize(style, start, end)
                console.print(text, crop=False)
    stream.flush()


_GOOD, _DOUBT, _OPEN, _BAD, _HEAD = "green", "yellow", "cyan", "red", "bold"
_FAILURES = ("danger_failed_run", "danger_damaged_run")
# What catches the eye of who looks for trouble in other screens; the words say the same without colours.
_STYLES = (
    (r"^(! |warning: |note ).*", _DOUBT),
    (r"^\? .*", _OPEN),
    (r"^(failed|problem|wrong:)(?!\S)(?! 0).*|(?<!\S)(MISSED|damaged)(?!\S)", _BAD),
)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal that a stream (standard output) writes to; None if it is none."""
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None


def _write_screen(reports: Sequence[Report], options: ScreenOptions) -> list[Line]:
    hints = [] if options.notes else [Note("more_to_see")]
    *first, last = [
        _write_report(report, options, hints if report is reports[-1] else []) for report in reports
    ]
    return [line for lines in first for line in (*lines, Line(""))] + last


def _write_report(report: Report, options: ScreenOptions, hints: Sequence[Note]) -> list[Line]:
    width = options.width
    # The answer stands first.
    sections = [options.of(section) for section in sorted(report.sections, key=lambda s: s.brief is None)]
    notes = [line for note in report.notes for line in _write_prose(note, width)]
    is_brief = any(section.brief for section in report.sections) and not options.wide
    hints = [*hints, *report.footer]
    head = _make_lines(wrapped(report.title, width)) if report.title and not is_brief else []
    if not sections and not notes:
        return _join_blocks([head, _write_prose(report.empty, width)]) + _write_notes([], hints, width)
    if options.notes:
        meanings = _write_notes(_space_marks(legend(sections)), (), width)
        whole = [_write_whole(section, options) for section in sections]
        last = _write_notes([], hints, width)
        if len(whole) == 1:
            return _join_blocks([head, whole[0] + meanings, notes, last])
        return _join_blocks([head, *whole, meanings, notes, last])
    # What stands below a section where its notes do not: each line with the mark that begins it.
    below = [[*_space_marks(section.legend()), *_list_dangers(section)] for section in sections]
    feet = [section.footer for section in sections]
    everywhere, foot = shared(below), shared(feet)
    blocks = []
    for section, lines, footer in zip(sections, below, feet, strict=True):
        grid = _write_head(section, width) + _write_grid(section, options, None)
        protects = _write_notes(without(lines, everywhere), without(footer, foot), width)
        blocks.append(_join_blocks([grid + protects, _write_script(section)]))
    return _join_blocks([head, *blocks]) + _write_notes(everywhere, (*foot, *hints), width) + notes


def _join_blocks(blocks: Iterable[list[Line]]) -> list[Line]:
    lines: list[Line] = []
    for block in filter(None, blocks):
        lines += [Line(""), *block] if lines else block
    return lines


def _write_notes(marked: Iterable[tuple[str, Note]], footer: Iterable[Note], width: int | None) -> list[Line]:
    """Notes with their marks, a line each, and one line of what is below them."""
    lines = []
    for mark, note in marked:
        style = {"!": _BAD if note.kind in _FAILURES else _DOUBT, "?": _OPEN}.get(mark, "")
        lines += _write_prose(note, width, f"{mark} " if mark else "", style)
    foot = " · ".join(map(str, footer))
    return lines + (_make_lines(wrapped(foot, width)) if foot else [])


def _list_dangers(section: Section) -> list[tuple[str, Note]]:
    return [*(("!", note) for note in section.dangers()), *(("?", note) for note in section.open)]


def _write_whole(section: Section, options: ScreenOptions) -> list[Line]:
    """A section with all its notes, but for the legend. What can be asked for is below the first screen."""
    marks, width = section.marks(), options.width
    marked = [*((f"{mark} ", note) for note, mark in marks.items()), *(("", note) for note in section.facts)]
    first = [] if options.wide is None else _write_notes(_list_dangers(section), section.footer, width)
    top = _write_head(section, width), _write_grid(section, options, marks) + first
    return _join_blocks([*top, _write_notes(marked, (), width), _write_script(section)])


def _space_marks(legend: Iterable[tuple[str, Note]]) -> list[tuple[str, Note]]:
    return [(f"{symbol} " if symbol else "", meaning) for symbol, meaning in legend]


def _write_head(section: Section, width: int | None) -> list[Line]:
    title = _make_lines(wrapped(section.title, width), _HEAD) if section.title else []
    return title + [line for note in section.above for line in _write_prose(note, width)]


def _write_script(section: Section) -> list[Line]:
    return _make_lines(visible(section.verbatim).splitlines())


def _write_prose(note: Note, width: int | None, mark: str = "", style: str = "") -> list[Line]:
    """A note as lines. In a pipe one with facts stays a line, which programs look for."""
    return _make_lines(wrapped(f"{mark}{note}", width if width is not None or note.fields else _PIPE), style)


def _make_lines(lines: Iterable[str], style: str = "") -> list[Line]:
    return [Line(line, ((0, len(line), style),) if style else ()) for line in lines]


# --- grids ---


Parts = Sequence[tuple[str, str]]  # of a cell: texts, each with its style


def _write_grid(section: Section, options: ScreenOptions, marks: Mapping[Note, str] | None) -> list[Line]:
    """The table with its cells in colour: the best green, what has failed red, what is in doubt yellow."""
    if not section.rows:
        return []
    columns = section.columns
    # Numbers stand one below the other, whatever stands behind them.
    room = [
        0 if column.kind == "text" else max(len(_write_tail(cell, marks)) for cell in cells_of_column)
        for column, cells_of_column in zip(columns, zip(*section.rows, strict=True), strict=True)
    ]

    def cells() -> Iterator[Sequence[Parts]]:
        for row in section.rows:
            yield [
                (
                    (column.text(cell), _DOUBT if column.doubts else _style(cell)),
                    (f"{_write_tail(cell, marks):<{size}}", _DOUBT),
                )
                for column, cell, size in zip(columns, row, room, strict=True)
            ]

    return _fit_table(columns, cells, options.room, options.more)


def _write_tail(cell: Cell, marks: Mapping[Note, str] | None) -> str:
    """What stands behind a value: that it was chosen, and the letters of its notes, or `!` for a danger."""
    chosen = f" {CHOSEN}" if cell.chosen else ""
    if marks is None:
        return chosen + (" !" if any(note.danger() for note in cell.notes) else "")
    return chosen + (f" [{','.join(marks[note] for note in cell.notes)}]" if cell.notes else "")


def _style(cell: Cell) -> str:
    return _BAD if cell.state in (Status.FAILED, Status.DAMAGED) else _GOOD if cell.bold else ""


def _fit_table(
    columns: Sequence[Column], rows: Callable[[], Iterable[Sequence[Parts]]], width: int | None, more: str
) -> list[Line]:
    """A table as lines: its columns as wide as they need to be, or as a terminal lets them.

    What is too wide has its words shortened first, then columns are left out, all but the first if need
    be, and a line below the table names them.

    Args:
        columns: of the table.
        rows: gives the cells without the head, one for each column; it is asked twice, as all rows of a
            long table would fill the memory.
        width: of the terminal; None: nothing is shortened or left out.
        more: where people find what is left out.
    """
    head = [((in_a_line(column.head), ""),) for column in columns]

    def lines_of_cells() -> Iterator[Sequence[Parts]]:
        yield head
        for row in rows():
            yield [[(in_a_line(text), style) for text, style in parts] for parts in row]

    whole = [0] * len(columns)
    for row in lines_of_cells():
        sizes = (sum(len(text) for text, _ in parts) for parts in row)
        whole = list(map(max, whole, sizes))
    least = [
        size
        if column.least is None or column.kind != "text"
        else min(size, max(column.least, len(column.head)))
        for column, size in zip(columns, whole, strict=True)
    ]
    fitting, dropped = list(range(len(columns))), list[int]()
    while width is not None and len(fitting) > 1 and _sum_widths(least[n] for n in fitting) > width:
        leaves = min(fitting[1:], key=lambda n: (columns[n].importance, -n))
        fitting.remove(leaves)
        dropped.append(leaves)
    widths = {n: whole[n] for n in fitting}
    for _ in range(0 if width is None else _sum_widths(widths.values()) - width):
        slack, widest = max((widths[n] - least[n], n) for n in widths)
        if slack:  # what is missing is taken where there is most to take
            widths[widest] -= 1
    lines = [_write_row(columns, row, widths) for row in lines_of_cells()]
    names = list(dict.fromkeys(columns[n].head for n in sorted(dropped)))
    return lines + (_write_prose(Note("left_out", names=names, where=more), width) if names else [])


def _write_row(columns: Sequence[Column], cells: Sequence[Parts], widths: Mapping[int, int]) -> Line:
    line, styles = "", []
    for n, width in widths.items():
        line += "  " if line else ""
        text = shortened("".join(text for text, _ in cells[n]), width)
        start = len(line) + (0 if columns[n].kind == "text" else width - len(text))
        line += text.ljust(width) if columns[n].kind == "text" else text.rjust(width)
        for part, style in cells[n]:
            end = min(start + len(part), len(line))
            styles += [(start, end, style)] if style and start < end else []
            start = end
    return Line(line.rstrip(), tuple(styles))


def _sum_widths(widths: Iterable[int]) -> int:
    return sum(width + 2 for width in widths) - 2


# A number with what belongs to it: `0.9,0.95`, `1e-05`, `60m`, `50%`.
_NUMBER = re.compile(r"\.?\d(?:[\w.,:%]|(?<=[eE])[+-])*")


def shortened(text: str, width: int) -> str:
    """A text in at most `width` characters; a shorter one ends in an ellipsis, and not within a number."""
    if len(text) <= width:
        return text
    end = width - 1
    inside = (n.start() for n in _NUMBER.finditer(text) if n.start() < end < n.end())
    return text[: next(inside, end)].rstrip() + "…"


def wrapped(line: str, width: int | None) -> list[str]:
    """A line as lines of a terminal, all but the first indented; `width` None: as it is.

    A word, such as a path, and a command between backticks stay whole: people copy them.
    """
    line = in_a_line(line)
    if width is None:
        return [line]
    room = max(width, 8)
    whole = _COMMAND.sub(lambda command: command[0].replace(" ", _SPACE), line)
    lines = textwrap.wrap(
        whole, room, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return [part.replace(_SPACE, " ") for part in lines] or [""]
