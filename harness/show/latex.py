"""Reports as LaTeX for a paper, with the rules of the booktabs package: one float per workload."""

import re
from collections.abc import Iterable, Mapping, Sequence

from htbench.harness.show.harmless import in_a_line
from htbench.harness.show.note import Note
from htbench.harness.show.report import CHOSEN, Cell, Column, Report, Section, legend

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "±": r"$\pm$",
    "→": r"$\to$",
    "–": "--",
    "…": r"\ldots{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}
# A table that is wider than the text is made smaller; others keep their size.
_FITTED = r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def write(reports: Sequence[Report]) -> str:
    """All of them, with one legend."""
    meanings = legend(part for report in reports for part in report.sections if not part.too_wide())
    lines = [f"{escape(symbol)} {_write_prose(meaning)}".strip() for symbol, meaning in meanings]
    below = (
        ["", r"{\footnotesize\raggedright", *(rf"  {line}\par" for line in lines), "}", ""] if lines else []
    )
    return "\n".join(map(_write_report, reports)) + "\n".join(below)


def _write_report(report: Report) -> str:
    head = f"% {report.name}: {in_a_line(report.title)}; needs \\usepackage{{booktabs,graphicx}}"
    blocks = [_write_section(report, section) for section in report.sections] or [f"% {report.empty}"]
    return "\n\n".join([head, *blocks, *(_write_prose(note) for note in report.notes)]) + "\n"


def _write_section(report: Report, section: Section) -> str:
    if note := section.too_wide():
        return f"% {in_a_line(f'{section.title}: {note}')}"
    marks = section.marks()
    slug = re.sub(r"[^a-z0-9]+", "-", f"{report.name} {section.title}".lower()).strip("-")
    alignment = "".join("l" if column.kind == "text" else "r" for column in section.columns)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape(f'{section.title}: {report.title}')}}}",
        rf"  \label{{tab:{slug}}}",
        _FITTED,
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        _write_row(escape(column.head) for column in section.columns),
        r"    \midrule",
        *(
            _write_row(_write_cell(*pair, marks) for pair in zip(section.columns, row, strict=True))
            for row in section.rows
        ),
        r"    \bottomrule",
        r"  \end{tabular}}",
        r"  \par\smallskip\footnotesize\raggedright",
        *(rf"  \textsuperscript{{{mark}}}~{_write_prose(note)}\par" for note, mark in marks.items()),
        *(rf"  {_write_prose(note)}\par" for note in section.facts),
        r"\end{table}",
    ]
    return "\n".join(lines)


def _write_row(cells: Iterable[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _write_cell(column: Column, cell: Cell, marks: Mapping[Note, str]) -> str:
    text = escape(column.text(cell))
    text = rf"\textbf{{{text}}}" if cell.bold else text
    text += rf"\,{CHOSEN}" if cell.chosen else ""
    letters = ",".join(marks[note] for note in cell.notes)
    return text + (rf"\textsuperscript{{{letters}}}" if letters else "")


def escape(text: str) -> str:
    """Plain text as LaTeX that prints it."""
    return "".join(_ESCAPES.get(character, character) for character in in_a_line(text))


def _write_prose(note: Note) -> str:
    """A footnote; what stands between backticks is code."""
    parts = str(note).split("`")
    return "".join(rf"\texttt{{{escape(part)}}}" if i % 2 else escape(part) for i, part in enumerate(parts))
