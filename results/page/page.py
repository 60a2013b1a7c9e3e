"""The page: its parts, its template, and the policy that keeps all else out.

A name or a note may hold anything, `</script>` among it. `page.html` escapes every text and shows hidden
characters. The browser runs only scripts and styles whose hash the policy names. ASCII only, so that no
browser can take the page for another encoding.
"""

import base64
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from htbench.harness.show import html
from htbench.harness.show.harmless import visible
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report, shared, without
from htbench.harness.store import Store
from htbench.results.compare.view import View
from htbench.results.page import overview
from htbench.results.page.forest import Axis, outlook, words
from htbench.results.tables import footnotes
from htbench.results.tables.answer import Answer, answers
from htbench.results.tables.ledger import ledger
from htbench.results.tables.registry import TABLES
from htbench.results.tables.verdicts import RULES

MARK = '<meta name="generator" content="htbench">'  # a file without it is not ours to replace
STYLES = ("report.css",)
SCRIPTS = ("tables.js",)
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
        tables = [(f"table-{one.name}", one.name) for one in self.reports if self.is_named]
        return [*tables, *((f"figure-{name}", name) for name in self.figures)]


def write(store: Store, frame: pd.DataFrame, figures: Mapping[str, tuple[bytes, str]] | None) -> str:
    """The whole page. Same store, same text.

    Args:
        store: where the runs are.
        frame: the tidy frame.
        figures: PNG and caption by name, in the order of the page; None: there would be too many.
    """
    view = View(frame, store=store)
    found = answers(frame, store, view)
    tables = [_once(report) for make in TABLES.values() if (report := make(view)).sections]
    claims = list(map(_once, ledger(view.frame or (), store))) if view.scales else []
    many = (Note("page_no_figures", workloads=len(found)),) if figures is None else ()
    bookkeeping = [overview.sweeps(frame), overview.environments(frame)]
    parts = [
        Part("figures", "Figures", rules=many, figures=figures or {}),
        Part("settings", "Settings", [overview.settings(found)]),
        Part("tables", "Tables", tables, is_named=True),
        Part("ledger", "Ledger", claims, is_named=True),
        Part("cost", "Cost", overview.cost(frame)),
        Part("method", "Method", bookkeeping, (footnotes.SPREAD, *RULES)),
    ]
    shown = {
        "scope": overview.scope(frame),
        "answers": [(own, Axis.of(own.places)) for own in found],
        "none": Note("answer_none", rows=[], over=0, lower=0),
        "trust": [(own.workload, lines) for own in found if (lines := _lines(own))],
        "parts": [part for part in parts if part],
    }
    return _filled(shown)


def _once(report: Report) -> Report:
    """The report with what is noted on all of its sections below them."""
    told = shared([section.notes for section in report.sections])
    sections = [replace(own, notes=tuple(without(own.notes, told))) for own in report.sections]
    return replace(report, sections=sections, notes=[*told, *report.notes])


def _lines(answer: Answer) -> list[tuple[str, Note]]:
    """What to know before one trusts an answer, each with its sign."""
    return [*(("!", note) for note in answer.dangers), *(("?", note) for note in answer.open)]


def _filled(shown: Mapping[str, Any]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    numbers = itertools.count()

    def grid(section: Any) -> Markup:
        return Markup(html.section(section, f"note-{next(numbers)}"))

    def seen(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    page = Environment(
        loader=FileSystemLoader(_PLACE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=seen,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page.filters |= {
        "grid": grid,
        "prose": lambda note: Markup(html.prose(note)),
        "remarks": lambda notes: Markup(html.remarks(notes)),
        "width": width,
        "words": words,
        "outlook": outlook,
        "base64": lambda png: base64.b64encode(png).decode(),
    }
    contents, code = ([static(name) for name in names] for names in (STYLES, SCRIPTS))
    ours = {"mark": MARK, "policy": policy(contents, code)}
    text = page.get_template("page.html").render(
        **shown,
        styles=map(Markup, contents),
        scripts=map(Markup, code),
        **{name: Markup(value) for name, value in ours.items()},
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def policy(contents: Iterable[str], code: Iterable[str]) -> str:
    """What a browser may load: these styles and scripts, and pictures that are in the page."""
    return "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            f"style-src {' '.join(map(hashed, contents))}",
            f"script-src {' '.join(map(hashed, code))}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def hashed(text: str) -> str:
    """A style or script as the policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def static(name: str) -> str:
    """A file of the folder `static`, which holds ASCII only."""
    return (_PLACE / "static" / name).read_text(encoding="ascii")


def width(png: bytes) -> int:
    """How wide a PNG is shown, in pixels of a page: sharp on screens with twice as many."""
    return int.from_bytes(png[16:20], "big") // 2
