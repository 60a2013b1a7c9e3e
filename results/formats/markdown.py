"""A table as Markdown, aligned so that it reads as well in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from harness.harmless import markdown, markdown_cell
from results.formats.cells import CHOSEN, NOTHING, Cell, Section, Table


def write(table: Table) -> str:
    """The whole table."""
    blocks = [_section(section) for section in table.sections] or [NOTHING]
    return "\n\n".join([f"## {table.name}: {markdown(table.title)}", *blocks]) + "\n"


def _section(section: Section) -> str:
    if sentence := section.too_wide():
        return f"### {markdown(section.title)}\n\n{markdown(sentence)}"
    marks = section.marks()
    notes = [
        *(f"[{mark}] {note}" for note, mark in marks.items()),
        *(f"`{symbol}` {meaning}" if symbol else meaning for symbol, meaning in section.legend()),
        *section.notes,
    ]
    lines = [
        f"### {markdown(section.title)}",
        "",
        *_grid(section, marks),
        "",
        *(f"- {markdown(note)}" for note in notes),
    ]
    return "\n".join(lines)


def _grid(section: Section, marks: Mapping[str, str]) -> list[str]:
    head = [markdown_cell(column.label) for column in section.columns]
    body = [[_cell(cell, marks) for cell in row] for row in section.rows]
    widths = [max(3, *map(len, texts)) for texts in zip(head, *body, strict=True)]
    pads = [str.ljust if column.kind == "text" else str.rjust for column in section.columns]
    rule = [
        ":" + "-" * (width - 1) if pad is str.ljust else "-" * (width - 1) + ":"
        for pad, width in zip(pads, widths, strict=True)
    ]
    return [
        f"| {' | '.join(pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True))} |"
        for row in (head, rule, *body)
    ]


def _cell(cell: Cell, marks: Mapping[str, str]) -> str:
    text = markdown_cell(cell.text())
    text = f"**{text}**" if cell.bold else text
    text += f" {CHOSEN[0]}" if cell.chosen else ""
    return f"{text} [{','.join(marks[note] for note in cell.notes)}]" if cell.notes else text
