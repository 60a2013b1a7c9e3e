"""One table of the paper, from its layout: published numbers, our runs, or both."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.paper import reported
from harness.paper.reported import Reported
from results.compare.ours import Ours
from results.compare.quantities import QUESTIONS, Quantity, quantity
from results.formats.cells import Cell, Column, Section, Table
from results.tables import fields, footnotes, mixtures, paper_cells, paper_lines, paper_notes
from results.tables.layouts import LAYOUTS, Layout
from results.tables.view import View

_WORDS = ("optimizer", "dataset", "model", "metric")  # fields that are no numbers


def table(name: str, view: View) -> Table:
    """A table of the paper; without sections if there is nothing to show."""
    layout = LAYOUTS[name]
    parts: dict[fields.Key, list[Reported]] = {}
    for line in reported.of_table(name):
        parts.setdefault(fields.key(line, layout.sections), []).append(line)
    sections = [grid.section() for lines in parts.values() for grid in _grids(layout, lines, view)]
    return Table(name, layout.title, sections)


def _grids(layout: Layout, lines: list[Reported], view: View) -> Iterator[Grid]:
    """The published numbers and our runs at each scale.

    At full scale runs have the workloads and units of the paper: they share a section, row by row. What is
    in miniature has a section of its own.
    """
    together = view.published and "paper" in view.scales
    if view.published and not together and (view.asked or view.scales):
        yield Grid(layout, lines, "paper", None, published=True)
    for scale in view.scales:
        ours = view.ours(scale)
        shown = paper_lines.at_scale(layout, lines, ours)
        yield Grid(layout, shown, scale, ours, published=together and scale == "paper")


@dataclass(frozen=True)
class Grid:
    """One section.

    Attributes:
        layout: its declaration.
        lines: the published numbers, one per cell of our runs; without a print if the paper has no such cell.
        scale: of the runs; `paper` also for published numbers alone.
        ours: the runs; None: published numbers only.
        published: whether the published numbers are shown.
    """

    layout: Layout
    lines: list[Reported]
    scale: str
    ours: Ours | None
    published: bool

    def section(self) -> Section:
        """The section with its notes."""
        parts = (self._title(), self._identity(), self._columns())
        published = paper_notes.published(self.lines) if self.published else ()
        if self.ours is None:
            notes = (paper_notes.choice(self.layout, self.scale), *published)
            return Section(*parts, self._rows({}), self.layout.axis, notes)
        found = paper_cells.of_runs(self.layout, self.ours, self.lines)
        runs = paper_lines.runs(self.lines, self.ours)
        notes = (
            paper_notes.choice(self.layout, self.scale),
            *paper_notes.of_runs(self.layout, self.scale, found.measured),
            *found.sentences,
            *paper_notes.twins(self.lines, self.scale),
            *published,
            *(footnotes.origin(runs) if len(runs) else ()),
        )
        section = Section(*parts, self._rows(found.cells), self.layout.axis, notes)
        return mixtures.complete(section, runs)

    def _columns(self) -> list[Column]:
        labels = [Column(field, field, "text" if field in _WORDS else "number") for field in self.layout.rows]
        source = [Column("source", "source", "text")] if self._both else []
        return [*labels, *source, *(self._column(line) for line in self._steps.values())]

    def _column(self, line: Reported) -> Column:
        metric = self._quantity(line).metric
        step = fields.value(line, self.layout.axis) if self.layout.axis else None
        return Column(
            "accuracy_percent" if line.metric in QUESTIONS else metric.column,
            fields.words(line, self.layout.columns, self.scale),
            "summary",
            step if isinstance(step, float) else None,
            fields.plain(line, self.layout.columns, self.scale),
        )

    def _rows(self, ours: Mapping[Reported, Cell]) -> list[list[Cell]]:
        """The rows in the order of the paper; below a row of published numbers that of ours."""
        rows = []
        for head in self._heads.values():
            labels = [Cell(fields.label(head, field, self.scale)) for field in self.layout.rows]
            cells = self._in_row(head)
            if self.published:
                rows.append([*labels, *self._source("paper"), *map(paper_cells.published, cells)])
            if self.ours is not None:
                own = (ours[line] if line else Cell() for line in cells)
                rows.append([*labels, *self._source("ours"), *own])
        return rows

    def _in_row(self, head: Reported) -> list[Reported | None]:
        """The published number of each column in a row."""
        key = fields.key(head, self.layout.rows)
        own = {
            fields.key(line, self.layout.columns): line
            for line in self.lines
            if fields.key(line, self.layout.rows) == key
        }
        return [own.get(step) for step in self._steps]

    def _source(self, word: str) -> list[Cell]:
        return [Cell(word)] if self._both else []

    @property
    def _both(self) -> bool:
        return self.published and self.ours is not None

    @functools.cached_property
    def _heads(self) -> dict[fields.Key, Reported]:
        """The rows in the order of the paper, each with its first number."""
        return fields.distinct(self.lines, self.layout.rows)

    @functools.cached_property
    def _steps(self) -> dict[fields.Key, Reported]:
        """The columns in the order of the paper, steps of a number ascending."""
        found = fields.distinct(self.lines, self.layout.columns)
        return dict(sorted(found.items(), key=lambda item: fields.place(self.layout.columns, item[0])))

    def _quantity(self, line: Reported) -> Quantity:
        found = quantity(line, self.scale)
        assert found is not None  # `paper_lines.at_scale` leaves such lines out
        return found

    # --- names ---

    def _title(self) -> str:
        """ "c4, llama-60m: perplexity, published"."""
        first = self.lines[0]
        where = ", ".join(str(fields.label(first, field, self.scale)) for field in self.layout.sections)
        labels = list(dict.fromkeys(self._quantity(line).metric.label for line in self.lines))
        what = " and ".join(labels) if len(labels) < 3 else "accuracy (%)"  # of several tasks
        what = f"validation {what}" if self.layout.axis == "lr" and self.scale != "paper" else what
        source = f"{self.scale} scale" if self.ours is not None else "published"
        return ", ".join(filter(None, [where, what, source]))

    def _identity(self) -> dict[str, str]:
        """The section as CSV columns."""
        first = self.lines[0]
        names = {field: str(fields.label(first, field, self.scale)) for field in self.layout.sections}
        source = {} if self._both else {"source": "paper" if self.ours is None else "ours"}
        return {"scale": self.scale, **names, **source}
