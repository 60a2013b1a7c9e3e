"""One table of the paper, from its layout: published numbers, our runs, or both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from harness.paper import experiments, reported
from harness.paper.reported import Reported
from harness.store.points import SEARCH
from results.formats.cells import Cell, Column, Section, Table
from results.paper.ours import Ours
from results.paper.quantities import QUESTIONS, quantity
from results.tables import fields, mixtures, paper_notes
from results.tables.layouts import LAYOUTS, Layout
from results.tables.paper_cells import Entry, emphasised, entry, published
from results.tables.view import View

Key = tuple[fields.Value, ...]  # of a row or a column
_TEXT = ("optimizer", "dataset", "model", "metric")


def table(name: str, view: View) -> Table:
    """A table of the paper; without sections if there is nothing to show."""
    layout = LAYOUTS[name]
    parts: dict[Key, list[Reported]] = {}
    for line in reported.of_table(name):
        parts.setdefault(fields.key(line, layout.sections), []).append(line)
    sections = [section for lines in parts.values() for section in _sections(layout, lines, view)]
    return Table(name, layout.title, sections)


def _sections(layout: Layout, lines: list[Reported], view: View) -> Iterator[Section]:
    """The published numbers and our runs at each scale.

    At full scale runs have the workloads and units of the paper: they share a section, row by row. What is
    in miniature has a section of its own.
    """
    together = view.published and "paper" in view.scales
    if view.published and not together and (view.asked or view.scales):
        yield _section(layout, lines, "paper", None, with_published=True)
    for scale in view.scales:
        ours = view.ours(scale)
        yield _section(layout, lines, scale, ours, with_published=together and scale == "paper")


def _section(
    layout: Layout, lines: list[Reported], scale: str, ours: Ours | None, *, with_published: bool
) -> Section:
    shown = lines if ours is None else _at_scale(layout, lines, ours)
    entries = {} if ours is None else dict(zip(shown, _entries(layout, shown, ours), strict=True))
    heads = _in_order(shown, layout.rows)
    steps = _in_order(shown, layout.columns)
    both = with_published and ours is not None
    rows = []
    for head, first in heads.items():
        own = {fields.key(line, layout.columns): line for line in shown if fields.key(line, layout.rows) == head}
        labels = [Cell(fields.label(first, field, scale)) for field in layout.rows]
        cells = [own.get(step) for step in steps]
        if with_published:
            rows.append([*labels, *_source(both, "paper"), *(_published(line) for line in cells)])
        if ours is not None:
            mine = [entries[line].cell if line else Cell() for line in cells]
            rows.append([*labels, *_source(both, "ours"), *mine])
    columns = [
        *(Column(field, field, "text" if field in _TEXT else "number") for field in layout.rows),
        *([Column("source", "source", "text")] if both else []),
        *(_column(layout, line, scale) for line in steps.values()),
    ]
    section = Section(
        _title(layout, lines, scale, ours, with_published),
        _identity(layout, lines, scale, ours),
        columns,
        rows,
        layout.axis,
        paper_notes.notes(layout, shown, scale, list(entries.values()), with_published=with_published),
    )
    return section if ours is None else mixtures.complete(section, _runs(shown, ours))
