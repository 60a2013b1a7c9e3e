"""Reports as Markdown, aligned so that they read as well in a terminal."""

from collections.abc import Mapping, Sequence

from htbench.harness.show.harmless import markdown, markdown_cell
from htbench.harness.show.note import Note
from htbench.harness.show.report import CHOSEN, Cell, Column, Report, Section, legend


def write(reports: Sequence[Report]) -> str:
    """All of them, with one legend."""
    meanings = legend(part for report in reports for part in report.sections if not part.too_wide())
    lines = [f"`{symbol}` {meaning}" if symbol else str(meaning) for symbol, meaning in meanings]
    below = ["\n### Legend\n\n" + "\n".join(f"- {markdown(line)}" for line in lines) + "\n"] if lines else []
    return "\n".join(map(_write_report, reports)) + "".join(below)


def _write_report(report: Report) -> str:
    blocks = [_write_section(section) for section in report.sections] or [markdown(str(report.empty))]
    blocks += ["\n".join(f"- {markdown(str(note))}" for note in report.notes)] if report.notes else []
    return "\n\n".join([f"## {report.name}: {markdown(report.title)}", *blocks]) + "\n"


def _write_section(section: Section) -> str:
    if note := section.too_wide():
        return f"### {markdown(section.title)}\n\n{markdown(str(note))}"
    marks = section.marks()
    notes = [*(f"[{mark}] {note}" for note, mark in marks.items()), *map(str, section.facts)]
    head = [f"### {markdown(section.title)}", "", *(f"{markdown(str(note))}\n" for note in section.above)]
    below = ["", *(f"- {markdown(note)}" for note in notes)] if notes else []
    columns = section.columns
    names = [markdown_cell(column.head) for column in columns]
    body = [[_write_cell(*pair, marks) for pair in zip(columns, row, strict=True)] for row in section.rows]
    widths = [max(3, *map(len, texts)) for texts in zip(names, *body, strict=True)]
    pads = [str.ljust if column.kind == "text" else str.rjust for column in columns]
    rule = [
        ":" + "-" * (width - 1) if pad is str.ljust else "-" * (width - 1) + ":"
        for pad, width in zip(pads, widths, strict=True)
    ]
    grid = [
        f"| {' | '.join(pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True))} |"
        for row in (names, rule, *body)
    ]
    return "\n".join([*head, *grid, *below])


def _write_cell(column: Column, cell: Cell, marks: Mapping[Note, str]) -> str:
    text = markdown_cell(column.text(cell))
    text = f"**{text}**" if cell.bold else text
    text += f" {CHOSEN}" if cell.chosen else ""
    return f"{text} [{','.join(marks[note] for note in cell.notes)}]" if cell.notes else text
