"""Reports as HTML: a `<table>` with caption, alignment and footnotes, in a page without scripts.

`htbench report` puts the same sections into its own page, under its style sheet.
"""

import html
from collections.abc import Iterable, Mapping, Sequence

from htbench.harness.show.harmless import visible
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.report import CHOSEN, Cell, Column, Report, Section, dangers, legend

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


def write(reports: Sequence[Report]) -> str:
    """All of them as one page, with one legend."""
    title = ", ".join(report.name for report in reports)
    head = f'<meta charset="utf-8">\n<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>'
    told = _meanings(legend(p for report in reports for p in report.sections if not p.too_wide()))
    body = "\n".join([*map(_report, reports), *(["<h3>Legend</h3>", *_list("notes", told)] if told else [])])
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _report(report: Report) -> str:
    sections = [section(part) for part in report.sections] or [f"<p>{prose(report.empty)}</p>"]
    notes = [f"<p>{prose(note)}</p>" for note in report.notes]
    return "\n".join([f"<h2>{escape(f'{report.name}: {report.title}')}</h2>", *sections, *notes])


def section(part: Section, fold: str = "") -> str:
    """One section: its grid under its title as caption, then the notes as a list.

    Args:
        part: the section.
        fold: begins the addresses of the notes, which then open at a click, on a mark or below the grid; what
            protects from a false conclusion stays in view, in short. Empty: all notes do, but for the legend.
    """
    if note := part.too_wide():
        return f"<h3>{escape(part.title)}</h3>\n<p>{prose(note)}</p>"
    marks = part.marks()
    links = {note: f'<a href="#{fold}-{mark}">{mark}</a>' if fold else mark for note, mark in marks.items()}
    ids = {mark: f' id="{fold}-{mark}"' if fold else "" for mark in marks.values()}
    notes = [
        *(f"<sup{ids[mark]}>{mark}</sup> {prose(note)}" for note, mark in marks.items()),
        *(_meanings(part.legend()) if fold else []),
        *map(prose, part.notes if fold else part.facts),
    ]
    lines = [
        *(f"<p>{prose(note)}</p>" for note in part.above),
        '<div class="wide"><table>',
        f"<caption><span>{escape(part.title)}</span></caption>",
        f"<thead><tr>{''.join(map(_head, part.columns))}</tr></thead>",
        "<tbody>",
        *(_row(part.columns, row, links) for row in part.rows),
        "</tbody>",
        "</table></div>",
        *(_folded(part.dangers(), notes) if fold else _list("notes", notes)),
    ]
    return "\n".join(lines)


def remarks(notes: Sequence[Note]) -> str:
    """Notes on several sections, folded like those of one."""
    return "\n".join(
        _folded(dangers(("", note) for note in notes), list(map(prose, notes)), " on all of these")
    )


def _folded(short: Iterable[Note], notes: Sequence[str], on: str = "") -> list[str]:
    fold = [
        f"<details><summary>{counted(len(notes), 'note')}{on}</summary>",
        *_list("notes", notes),
        "</details>",
    ]
    return [*_list("dangers", map(prose, short)), *(fold if notes else [])]


def _meanings(legend: Iterable[tuple[str, Note]]) -> list[str]:
    return [f"{escape(symbol)} {prose(meaning)}".strip() for symbol, meaning in legend]


def _list(kind: str, items: Iterable[str]) -> list[str]:
    found = [f"<li>{item}</li>" for item in items]
    return [f'<ul class="{kind}">', *found, "</ul>"] if found else []


def _head(column: Column) -> str:
    return f'<th scope="col"{_alignment(column)}>{escape(column.head)}</th>'


def _row(columns: Sequence[Column], row: Sequence[Cell], marks: Mapping[Note, str]) -> str:
    cells = [
        f"<td{_alignment(column)}>{_cell(column, cell, marks)}</td>"
        for column, cell in zip(columns, row, strict=True)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _alignment(column: Column) -> str:
    return "" if column.kind == "text" else ' class="number"'


def _cell(column: Column, cell: Cell, marks: Mapping[Note, str]) -> str:
    text = escape(column.text(cell))
    text = f"<strong>{text}</strong>" if cell.bold else text
    text += f" {CHOSEN}" if cell.chosen else ""
    letters = ",".join(marks[note] for note in cell.notes)
    return text + (f"<sup>{letters}</sup>" if letters else "")


def prose(note: Note | str) -> str:
    """A sentence; what stands between backticks is code."""
    parts = str(note).split("`")
    return "".join(f"<code>{escape(part)}</code>" if i % 2 else escape(part) for i, part in enumerate(parts))
