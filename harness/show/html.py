"""Sections as HTML, for the page of `htbench report`: a `<table>` with caption, alignment and footnotes."""

import html
from collections.abc import Iterable, Mapping, Sequence

from htbench.harness.show.harmless import visible
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.report import CHOSEN, Cell, Column, Section, dangers


def escape(text: str) -> str:
    """Plain text as HTML that shows it."""
    return html.escape(visible(text))


def section(part: Section, fold: str) -> str:
    """One section: its grid under its title as caption, and its notes, which open at a click.

    What protects from a false conclusion stays in view, in short.

    Args:
        part: the section.
        fold: begins the addresses of the notes.
    """
    if note := part.too_wide():
        return f"<h3>{escape(part.title)}</h3>\n<p>{prose(note)}</p>"
    marks = part.marks()
    links = {note: f'<a href="#{fold}-{mark}">{mark}</a>' for note, mark in marks.items()}
    notes = [
        *(f'<sup id="{fold}-{mark}">{mark}</sup> {prose(note)}' for note, mark in marks.items()),
        *(f"{escape(symbol)} {prose(meaning)}".strip() for symbol, meaning in part.legend()),
        *map(prose, part.notes),
    ]
    heads = (f'<th scope="col"{_align_column(column)}>{escape(column.head)}</th>' for column in part.columns)
    lines = [
        *(f"<p>{prose(note)}</p>" for note in part.above),
        '<div class="wide"><table>',
        f"<caption><span>{escape(part.title)}</span></caption>",
        f"<thead><tr>{''.join(heads)}</tr></thead>",
        "<tbody>",
        *(_write_row(part.columns, row, links) for row in part.rows),
        "</tbody>",
        "</table></div>",
        *_fold_notes(part.dangers(), notes),
    ]
    return "\n".join(lines)


def remarks(notes: Sequence[Note]) -> str:
    """Notes on several sections, folded like those of one."""
    return "\n".join(
        _fold_notes(dangers(("", note) for note in notes), list(map(prose, notes)), " on all of these")
    )


def _fold_notes(short: Iterable[Note], notes: Sequence[str], on: str = "") -> list[str]:
    fold = [
        f"<details><summary>{counted(len(notes), 'note')}{on}</summary>",
        *_write_list("notes", notes),
        "</details>",
    ]
    return [*_write_list("dangers", map(prose, short)), *(fold if notes else [])]


def _write_list(kind: str, items: Iterable[str]) -> list[str]:
    lines = [f"<li>{item}</li>" for item in items]
    return [f'<ul class="{kind}">', *lines, "</ul>"] if lines else []


def _write_row(columns: Sequence[Column], row: Sequence[Cell], marks: Mapping[Note, str]) -> str:
    cells = ""
    for column, cell in zip(columns, row, strict=True):
        text = escape(column.text(cell))
        text = f"<strong>{text}</strong>" if cell.bold else text
        text += f" {CHOSEN}" if cell.chosen else ""
        letters = ",".join(marks[note] for note in cell.notes)
        cells += f"<td{_align_column(column)}>{text}" + (f"<sup>{letters}</sup>" if letters else "") + "</td>"
    return f"<tr>{cells}</tr>"


def _align_column(column: Column) -> str:
    return "" if column.kind == "text" else ' class="number"'


def prose(note: Note | str) -> str:
    """A sentence; what stands between backticks is code."""
    parts = str(note).split("`")
    return "".join(f"<code>{escape(part)}</code>" if i % 2 else escape(part) for i, part in enumerate(parts))
