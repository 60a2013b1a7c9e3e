"""The page: its parts, its template, and the policy that keeps all else out.

A name or a note may hold anything, `</script>` among it. `page.html` escapes every text and shows hidden
characters. The page has no script, and the policy lets a browser run none. ASCII only, so that no browser can
take the page for another encoding.
"""

import base64
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from htbench.harness.show import html
from htbench.harness.show.harmless import visible
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report, Section, shared, without
from htbench.results.compare.view import View
from htbench.results.page import overview
from htbench.results.tables import answer, footnotes
from htbench.results.tables.ledger import make_ledger
from htbench.results.tables.registry import TABLES
from htbench.results.tables.verdicts import RULES

MARK = '<meta name="generator" content="htbench">'  # a file without it is not ours to replace
_PLACE = Path(__file__).parent


@dataclass(frozen=True)
class Part:
    """One part of the page.

    Attributes:
        name: its address in the page.
        title: its heading.
        reports: its tables.
        rules: sentences, above them.
        figures: PNG and caption by name, below them.
        is_named: whether each table stands under its name.
    """

    name: str
    title: str
    reports: Sequence[Report] = ()
    rules: Sequence[Note] = ()
    figures: Mapping[str, tuple[bytes, str]] = field(default_factory=dict)
    is_named: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.rules or self.figures or any(report.sections for report in self.reports))

    @property
    def entries(self) -> list[tuple[str, str]]:
        """What the list of contents shows below it: address and name of each."""
        tables = [(f"table-{report.name}", report.name) for report in self.reports if self.is_named]
        return [*tables, *((f"figure-{name}", name) for name in self.figures)]


def write(view: View, figures: Mapping[str, tuple[bytes, str]] | None) -> str:
    """The whole page. Same store, same text.

    Args:
        view: of the runs.
        figures: PNG and caption by name, in the order of the page; None: there would be too many.
    """
    frame = view.frame or ()
    answers = [_make_brief(answer.make_section(each, view)) for each in view.workloads]
    tables = [_share_notes(report) for make in TABLES.values() if (report := make(view)).sections]
    claims = list(map(_share_notes, make_ledger(view))) if view.scales else []
    many = (Note("page_no_figures", workloads=len(answers)),) if figures is None else ()
    parts = [
        Part("figures", "Figures", rules=many, figures=figures or {}),
        Part("tables", "Tables", tables, is_named=True),
        Part("ledger", "Ledger", claims, is_named=True),
        Part("cost", "Cost", [overview.cost(frame)]),
        Part("method", "Method", rules=(footnotes.SPREAD, *RULES)),
    ]
    contents = {
        "scope": overview.scope(frame),
        "answers": answers,
        "none": Note("answer_none", rows=[], over=0, lower=0),
        "parts": [part for part in parts if part],
    }
    return _fill_template(contents)


def _make_brief(section: Section) -> Section:
    """What a screen shows of a workload, with those of its notes that protect; its table has them all."""
    brief = section.brief or section
    return replace(brief, notes=tuple(note for note in brief.notes if note.danger()))


def _share_notes(report: Report) -> Report:
    """The report with what is noted on all of its sections below them."""
    common_notes = shared([section.notes for section in report.sections])
    sections = []
    for section in report.sections:
        sections.append(replace(section, notes=tuple(without(section.notes, common_notes))))
    return replace(report, sections=sections, notes=[*common_notes, *report.notes])


def _fill_template(contents: Mapping[str, Any]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    numbers = itertools.count()
    page = Environment(
        loader=FileSystemLoader(_PLACE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Callable[[Any], Any]] = {
        "grid": lambda section: Markup(html.section(section, f"note-{next(numbers)}")),
        "prose": lambda note: Markup(html.prose(note)),
        "remarks": lambda notes: Markup(html.remarks(notes)),
        # Sharp on screens with twice as many pixels.
        "width": lambda png: int.from_bytes(png[16:20], "big") // 2,
        "base64": lambda png: base64.b64encode(png).decode(),
    }
    page.filters |= filters
    style = (_PLACE / "report.css").read_text(encoding="ascii")
    constants = {"mark": MARK, "policy": make_policy(style), "style": style}
    text = page.get_template("page.html").render(
        **contents, **{name: Markup(value) for name, value in constants.items()}
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def make_policy(style: str) -> str:
    """What a browser may load: this style, pictures that are in the page, and no script."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    allowed = f"img-src data:; style-src 'sha256-{digest}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
