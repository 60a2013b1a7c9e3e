"""A table as HTML: a `<table>` with caption, alignment and footnotes, in a page without scripts.

`htbench report` puts the same sections into its own page, where a style sheet and a script act on them.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence

from harness.harmless import visible
from results.formats.cells import CHOSEN, NOTHING, Cell, Column, Section, Table

Attributes = Callable[[Cell], str]
_STYLE = (
    "body { font: 15px/1.4 sans-serif; margin: 1em }\n"
    "table { border-collapse: collapse }\n"
    "caption { text-align: left; padding: 4px 0 }\n"
    "th, td { padding: 2px 10px; text-align: left; font-weight: normal; white-space: nowrap }\n"
    "thead th { border-bottom: 1px solid }\n"
    ".number { text-align: right }"
)


def escape(text: str) -> str:
    """Plain text as HTML that shows it."""
    return html.escape(visible(text))


def write(table: Table) -> str:
    """The whole table as a page."""
    return write_all([table])


def write_all(tables: Sequence[Table]) -> str:
    """Several tables as one page."""
    title = ", ".join(table.name for table in tables)
    head = f'<meta charset="utf-8">\n<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>'
    body = "\n".join(map(_table, tables))
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _table(table: Table) -> str:
    sections = [section(one) for one in table.sections] or [f"<p>{escape(NOTHING)}</p>"]
    return "\n".join([f"<h2>{escape(f'{table.name}: {table.title}')}</h2>", *sections])


def section(one: Section, attributes: Attributes = lambda cell: "") -> str:
    """One section: its grid under its title as caption, then the notes as a list.

    Args:
        one: the section.
        attributes: of the element of a cell, as HTML that begins with a space; for example its runs.
    """
    if sentence := one.too_wide():
        return f"<h3>{escape(one.title)}</h3>\n<p>{prose(sentence)}</p>"
    marks = one.marks()
    notes = [f"<li>{note}</li>" for note in _notes(one, marks)]
    lines = [
        '<div class="wide"><table>',
        f"<caption><span>{escape(one.title)}</span></caption>",
        f"<thead><tr>{''.join(map(_head, one.columns))}</tr></thead>",
        "<tbody>",
        *(_row(one.columns, row, marks, attributes) for row in one.rows),
        "</tbody>",
        "</table></div>",
        *(['<ul class="notes">', *notes, "</ul>"] if notes else []),
    ]
    return "\n".join(lines)


def _head(column: Column) -> str:
    return f'<th scope="col"{_alignment(column)}>{escape(column.label)}</th>'


def _row(
    columns: Sequence[Column], row: Sequence[Cell], marks: Mapping[str, str], attributes: Attributes
) -> str:
    cells = [
        f"<td{_alignment(column)}{_number(cell)}{attributes(cell)}>{_cell(cell, marks)}</td>"
        for column, cell in zip(columns, row, strict=True)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _alignment(column: Column) -> str:
    return "" if column.kind == "text" else ' class="number"'


def _number(cell: Cell) -> str:
    """What scripts sort by: the number as it is, for example without its spread."""
    number = cell.number()
    return "" if number is None or cell.state else f' data-value="{number:.10g}"'


def _cell(cell: Cell, marks: Mapping[str, str]) -> str:
    text = escape(cell.text())
    text = f"<strong>{text}</strong>" if cell.bold else text
    text += f" {CHOSEN[0]}" if cell.chosen else ""
    letters = ",".join(marks[note] for note in cell.notes)
    return text + (f"<sup>{letters}</sup>" if letters else "")


def _notes(one: Section, marks: Mapping[str, str]) -> list[str]:
    return [
        *(f"<sup>{mark}</sup> {prose(note)}" for note, mark in marks.items()),
        *(f"{escape(symbol)} {prose(meaning)}".strip() for symbol, meaning in one.legend()),
        *map(prose, one.notes),
    ]


def prose(text: str) -> str:
    """A sentence; what stands between backticks is code."""
    parts = text.split("`")
    return "".join(f"<code>{escape(part)}</code>" if i % 2 else escape(part) for i, part in enumerate(parts))
