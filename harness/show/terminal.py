"""Reports on a screen: fitted to the width of a terminal, with colours where it has them; plain in a pipe.

rich draws; what fits is decided here. It has no columns that leave by importance, and it would cut numbers.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from harness.show.harmless import in_a_line, obeyed, visible
from harness.show.note import Note
from harness.show.report import CHOSEN, Cell, Column, Report, Section

_MORE = "--json has all"
_PIPE = 80  # columns of an explanation where nothing tells a width
_COMMAND = re.compile("`[^`]*`")
_SPACE = "\x00"  # never in a line: `in_a_line` has shown it


def write(reports: Sequence[Report]) -> str:
    """Reports as plain text, as wide as they need to be."""
    return "\n".join("\n".join(_lines(report, None)) for report in reports) + "\n"


def show(reports: Sequence[Report], stream: TextIO | None = None) -> None:
    """Print reports to a stream (standard output): fitted and coloured on a terminal, else plain."""
    stream = stream or sys.stdout
    width = terminal_width(stream)
    if width is None:
        stream.write(write(reports))
    else:
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, width=width, highlight=False)  # knows NO_COLOR and what TERM can do
        with obeyed(stream):
            for line in (line for report in reports for line in _lines(report, width)):
                text = Text(line, no_wrap=True, overflow="ignore")
                for pattern, style in _STYLES:
                    text.highlight_regex(pattern, style)
                console.print(text, crop=False)
    stream.flush()


# What catches the eye of who looks for trouble; the words say the same without colours.
_STYLES = (
    (r"^(! |warning: |note ).*", "yellow"),
    (r"^\? .*", "cyan"),
    (r"^(failed|problem)(?!\S)(?! 0).*|(?<!\S)(MISSED|damaged)(?!\S)", "red"),
)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal that a stream (standard output) writes to; None if it is none."""
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None


def _lines(report: Report, width: int | None) -> list[str]:
    blocks = [_section(section, width) for section in report.sections]
    if not report.sections and not report.notes:
        blocks = [_prose(report.empty, width)]
    head = [[in_a_line(report.title)]] if report.title else []
    notes = [line for note in report.notes for line in _prose(note, width)]
    return _joined([*head, *blocks, notes])


def _joined(blocks: Iterable[list[str]]) -> list[str]:
    lines: list[str] = []
    for block in filter(None, blocks):
        lines += ["", *block] if lines else block
    return lines


def _section(section: Section, width: int | None) -> list[str]:
    marks = section.marks()
    notes = [line for note, mark in marks.items() for line in _prose(note, width, f"{mark}  ")]
    for symbol, meaning in section.legend():
        notes += _prose(meaning, width, f"{symbol}  " if symbol else "")
    notes += [line for note in section.notes for line in _prose(note, width)]
    head = wrapped(section.title, width) if section.title else []
    above = [line for note in section.above for line in _prose(note, width)]
    grid = grid_lines(
        section.columns,
        [[_text(*pair, marks) for pair in zip(section.columns, row, strict=True)] for row in section.rows],
        width,
    )
    return _joined(
        [
            [*head, *above],
            grid if section.rows else [],
            notes,
            visible(section.verbatim).splitlines(),
        ]
    )


def _prose(note: Note, width: int | None, mark: str = "") -> list[str]:
    """A note as lines. In a pipe one with facts stays a line, which programs look for."""
    return wrapped(f"{mark}{note}", width if width is not None or note.fields else _PIPE)


def _text(column: Column, cell: Cell, marks: Mapping[Note, str]) -> str:
    text = column.text(cell) + (f" {CHOSEN}" if cell.chosen else "")
    return text + (f" [{','.join(marks[note] for note in cell.notes)}]" if cell.notes else "")


def grid_lines(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """A table as lines: its columns as wide as they need to be, or as a terminal lets them.

    What is too wide has its words shortened first, then columns are left out, all but the first if need
    be, and a line below the table names them.

    Args:
        columns: of the table.
        rows: texts without the head, one for each column.
        width: of the terminal; None: nothing is shortened or left out.
    """
    cells = [[in_a_line(text) for text in row] for row in [[column.head for column in columns], *rows]]
    whole = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
    least = [
        size
        if column.least is None or column.kind != "text"
        else min(size, max(column.least, len(column.head)))
        for column, size in zip(columns, whole, strict=True)
    ]
    kept, gone = list(range(len(columns))), list[int]()
    while width is not None and len(kept) > 1 and _total(least[n] for n in kept) > width:
        leaves = min(kept[1:], key=lambda n: (columns[n].importance, -n))
        kept.remove(leaves)
        gone.append(leaves)
    widths = {n: whole[n] for n in kept}
    for _ in range(0 if width is None else _total(widths.values()) - width):
        slack, widest = max((widths[n] - least[n], n) for n in widths)
        if slack:  # what is missing is taken where there is most to take
            widths[widest] -= 1
    lines = [
        "  ".join(
            f"{shortened(row[n], widths[n]):{'<' if columns[n].kind == 'text' else '>'}{widths[n]}}"
            for n in kept
        ).rstrip()
        for row in cells
    ]
    names = list(dict.fromkeys(columns[n].head for n in sorted(gone)))
    return lines + (wrapped(str(Note("left_out", names=names, where=_MORE)), width) if names else [])


def _total(widths: Iterable[int]) -> int:
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


def wrapped(line: str, width: int | None, indent: str = "    ") -> list[str]:
    """A line as lines of a terminal, all but the first indented; `width` None: as it is.

    A word, such as a path, and a command between backticks stay whole: people copy them.
    """
    line = in_a_line(line)
    if width is None:
        return [line]
    room = max(width, 2 * len(indent))
    whole = _COMMAND.sub(lambda command: command[0].replace(" ", _SPACE), line)
    lines = textwrap.wrap(
        whole, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [part.replace(_SPACE, " ") for part in lines] or [""]
