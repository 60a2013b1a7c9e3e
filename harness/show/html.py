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
    meanings = _write_meanings(legend(p for report in reports for p in report.sections if not p.too_wide()))
    below = ["<h3>Legend</h3>", *_write_list("notes", meanings)] if meanings else []
    body = "\n".join([*map(_write_report, reports), *below])
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _write_report(report: Report) -> str:
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
        *(_write_meanings(part.legend()) if fold else []),
        *map(prose, part.notes if fold else part.facts),
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
        *(_fold_notes(part.dangers(), notes) if fold else _write_list("notes", notes)),
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


def _write_meanings(legend: Iterable[tuple[str, Note]]) -> list[str]:
    return [f"{escape(symbol)} {prose(meaning)}".strip() for symbol, meaning in legend]


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
