"""A report: what a command has found, as typed values. `show.emit` prints it in the format asked for.

A report has sections, a section has typed columns, rows of cells, and notes. Its JSON document is `data`,
if it has any, else the sections themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_lowercase
from typing import Any, Literal, Protocol, TypeVar

from htbench.harness.show.note import Note
from htbench.harness.show.numbers import UNITS, setting
from htbench.harness.show.status import Status

Term = TypeVar("Term")

CHOSEN = "*"
# Notes that say what signs and columns mean, wherever they stand: a document tells them once.
_RULES = frozenset(
    [
        *("bold", "bold_never", "judged", "spread", "time_step", "workloads_best_on"),
        *("flops_counted", "flops_formula", "flops_htmuon", "flops_muon", "flops_roots", "flops_unit"),
        *("hyper_ladder", "hyper_ours", "hyper_paper", "paper_published", "paper_search", "paper_selected"),
        *("ledger_noise", "ledger_no_spread", "ledger_scale"),
    ]
)
_MOST_ALIKE = 4  # dangers of one kind that have a line of their own
_MOST_STEPS = 16  # columns of a grid that a page holds; a search tries a new value in each trial


class Spread(Protocol):
    """Mean and spread of one metric over seeds, as `results/compare/stats.py` makes them.

    Attributes:
        mean: of the values.
        std: sample standard deviation (ddof=1); None for a single value, which has no spread.
        n: number of values.
        interval: the 95 % interval of the mean; None for a single value. It may take time to ask for it.
    """

    @property
    def mean(self) -> float: ...  # noqa: D102 - above
    @property
    def std(self) -> float | None: ...  # noqa: D102
    @property
    def n(self) -> int: ...  # noqa: D102
    @property
    def interval(self) -> tuple[float, float] | None: ...  # noqa: D102


@dataclass(frozen=True)
class Column:
    """A column of a section.

    Attributes:
        name: in files of data; empty if it stays out of them.
        label: for people; empty: the name.
        kind: `summary` is several columns in files of data.
        unit: how a number is printed, a key of `numbers.UNITS`; empty: as its cell says.
        digits: decimals of the numbers of cells that do not say theirs.
        importance: where a terminal is too narrow, the columns of the lowest importance leave first. The
            first column never does.
        least: the width to which words may be shortened; None: they are whole. Numbers are never cut.
        across: the value of the section's axis, if the column is a step of a grid.
        place: what tells the column from others of its name, as names and values of columns in files of
            data: these then have a line per cell.
        bounds: the ends of what its values can be, at which an interval ends, too.
        doubts: whether its words are about what could mislead, such as an edge.
    """

    name: str
    label: str = ""
    kind: Literal["text", "number", "summary"] = "number"
    unit: str = ""
    digits: int | None = None
    importance: int = 5
    least: int | None = None
    across: float | None = None
    place: tuple[tuple[str, str], ...] = ()
    bounds: tuple[float, float] | None = None
    doubts: bool = False

    @property
    def head(self) -> str:
        """What stands above it."""
        return self.label or self.name

    def text(self, cell: Cell) -> str:
        """A cell of the column in plain words, without marks."""
        value = cell.number()
        if self.unit and value is not None and cell.state is None:
            return UNITS[self.unit](value)
        has_digits = cell.digits is not None or self.digits is None
        return (cell if has_digits else replace(cell, digits=self.digits)).text()

    def within(self, interval: tuple[float, float]) -> tuple[float, float]:
        """An interval cut to the column's bounds."""
        low, high = interval
        least, most = self.bounds or (low, high)
        return max(least, low), min(most, high)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell.

    Attributes:
        value: a word, a number or a `Spread` over seeds; None together with a `state` says why there is none.
        digits: decimals of a number; None prints up to six significant digits.
        state: why there is no value.
        detail: what the symbol of the state needs beside it, for example the step.
        bold, chosen: how a value is emphasised.
        notes: footnotes; the renderer gives them their marks.
        runs: keys of the runs that the value comes from; only files of data have them.
    """

    value: Any = None
    digits: int | None = None
    state: Status | None = None
    detail: str = ""
    bold: bool = False
    chosen: bool = False
    notes: tuple[Note, ...] = ()
    runs: tuple[str, ...] = ()

    @property
    def spread(self) -> Spread | None:
        """The value if it is a summary, else None."""
        return self.value if hasattr(self.value, "n") else None  # not by its interval, which takes time

    def number(self) -> float | None:
        """The number without its spread; None if there is none."""
        value = self.spread.mean if self.spread else self.value
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self) -> str:
        """The cell in plain words, without marks."""
        if self.state is not None:
            return self.state.symbol + self.detail
        number, spread = self.number(), self.spread
        if number is None:
            return "" if self.value is None else setting(self.value)
        deviation = "" if spread is None or spread.std is None else f" ± {self._format(spread.std)}"
        return self._format(number) + deviation

    def _format(self, x: float) -> str:
        return f"{x:.6g}" if self.digits is None else f"{x:.{self.digits}f}"

    def noted(self, *notes: Note) -> Cell:
        """The same cell with more footnotes."""
        return self if not notes else replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True)
class Section:
    """A part of a report: one table, for example of one workload.

    Attributes:
        title: in words.
        identity: the workload as columns of files of data.
        columns, rows: the grid; a row has one cell per column.
        axis: what the columns with an `across` value are steps of; empty for a table that is no grid.
        notes: what holds for the whole section.
        mixtures: why its numbers may not be comparable; `--strict` refuses them.
        above: what stands between its title and its grid.
        verbatim: a text below all that, such as a script, that is shown as it is.
        open: what is not known, with what would tell. Screens alone show it: files have it in their notes.
        footer: what a screen says in its last lines, below all sections.
        brief: what a screen shows of the section if not asked for all columns; None: the section itself.
    """

    title: str
    identity: dict[str, str]
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    axis: str = ""
    notes: tuple[Note, ...] = ()
    mixtures: tuple[Note, ...] = ()
    above: tuple[Note, ...] = ()
    verbatim: str = ""
    open: tuple[Note, ...] = ()
    footer: tuple[Note, ...] = ()
    brief: Section | None = None

    def dangers(self) -> list[Note]:
        """What protects from a false conclusion, a short line each, with the names of its rows."""
        return dangers(
            [
                *((self._name(row), note) for row in self.rows for cell in row for note in cell.notes),
                *(("", note) for note in self.notes),
            ]
        )

    def _name(self, row: Sequence[Cell]) -> str:
        """What a row is called: its first word, else its first number with what it is of."""
        pairs = zip(self.columns, row, strict=True)
        words = (cell.text() for column, cell in pairs if column.kind == "text")
        return next(filter(None, words), f"{self.columns[0].head} {row[0].text()}")

    def too_wide(self) -> Note | None:
        """Where to look instead, if the grid has more columns than a page holds."""
        steps = sum(column.across is not None for column in self.columns)
        return Note("too_wide", steps=steps, axis=self.axis) if steps > _MOST_STEPS else None

    def marks(self) -> dict[Note, str]:
        """The footnotes of the cells with their letters, in reading order; equal ones share a letter."""
        notes = dict.fromkeys(note for row in self.rows for cell in row for note in cell.notes)
        return {note: _make_letters(index) for index, note in enumerate(notes)}

    def legend(self) -> list[tuple[str, Note]]:
        """The symbols used, with their meaning; the meaning of an empty cell has no symbol."""
        cells = {id(cell): cell for row in self.rows for cell in row}.values()
        states = {cell.state for cell in cells}
        legend = [(CHOSEN, Note("chosen"))] if any(cell.chosen for cell in cells) else []
        legend += [(state.symbol, Note(f"status_{state}")) for state in Status if state in states]
        unplanned = self.axis and any(not cell.text() for cell in cells)
        return [*legend, ("", Note("not_planned"))] if unplanned else legend

    @property
    def facts(self) -> list[Note]:
        """The notes that hold for this section alone."""
        return [note for note in self.notes if note.kind not in _RULES]


def legend(sections: Iterable[Section]) -> list[tuple[str, Note]]:
    """What the signs and columns of some sections mean, each once: a symbol, or none, with its meaning."""
    parts = list(sections)
    symbols = [pair for section in parts for pair in section.legend()]
    rules = [("", note) for section in parts for note in section.notes if note.kind in _RULES]
    return list(dict.fromkeys([*symbols, *rules]))


def dangers(facts: Iterable[tuple[str, Note]]) -> list[Note]:
    """What protects from a false conclusion, a short line each: `Note.danger` of those that have one.

    Facts of one kind stand together. Equal ones are a line with several names; if there are many of a kind,
    the last line only names the rows of the others.

    Args:
        facts: notes, each with the name of the row that it is about; empty: it is about all.
    """
    names: dict[Note, dict[str, None]] = {}
    for name, note in facts:
        short = note.danger()
        if short is not None:
            names.setdefault(short, {})[name] = None
    kinds: dict[str, list[Note]] = {}
    for short, row_names in names.items():
        kinds.setdefault(short.kind, []).append(Note(short.kind, **short.fields, who=list(row_names)))
    lines = []
    for alike in kinds.values():
        lines += alike[:_MOST_ALIKE]
        rest = dict.fromkeys(name for note in alike[_MOST_ALIKE:] for name in note["who"])
        lines += [Note("danger_more", who=list(rest))] if rest else []
    return lines


def shared(parts: Sequence[Iterable[Term]]) -> list[Term]:
    """What all of several lists have, in the order of the first one: it is told once."""
    first, *rest = map(list, parts) if len(parts) > 1 else [[]]
    return [term for term in first if all(term in terms for terms in rest)]


def without(terms: Iterable[Term], excluded: Collection[Term]) -> list[Term]:
    """The terms that are not told elsewhere."""
    return [term for term in terms if term not in excluded]


def _make_letters(index: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    rest, last = divmod(index, len(ascii_lowercase))
    return (_make_letters(rest - 1) if rest else "") + ascii_lowercase[last]


class LazySections(Sequence[Section]):
    """Sections that are made when they are asked for; whether there are any takes the first of them only."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._rest, self._made = iter(sections), list[Section]()

    def __bool__(self) -> bool:
        if not self._made:
            self._made += itertools.islice(self._rest, 1)
        return bool(self._made)

    def __len__(self) -> int:
        self._made += self._rest
        return len(self._made)

    def __getitem__(self, at: Any) -> Any:
        self._made += self._rest
        return self._made[at]


def table(
    columns: Sequence[Column],
    rows: Iterable[Iterable[Any]],
    *,
    title: str = "",
    notes: Iterable[Note] = (),
    above: Iterable[Note] = (),
    identity: Mapping[str, str] | None = None,
) -> Section:
    """A section of plain values, each of which becomes a cell.

    Args:
        columns: its columns.
        rows: a value or a cell per column.
        title: in words; empty: the section needs none.
        notes: below it.
        above: above it.
        identity: the workload as columns of files of data.
    """
    words: dict[str, Cell] = {}  # a cell for each: a column has few, and may be long

    def cell(value: Any) -> Cell:
        if type(value) is not str:
            return value if isinstance(value, Cell) else Cell(value)
        if value not in words:
            words[value] = Cell(value)
        return words[value]

    cells = [list(map(cell, row)) for row in rows]
    return Section(title, dict(identity or {}), columns, cells, notes=tuple(notes), above=tuple(above))


def by_columns(columns: Mapping[Column, Collection[Any]], **parts: Any) -> Section:
    """The same of columns with their values, but for those without any; `parts` as for `table`."""
    filled = {
        column: cells
        for column, cells in columns.items()
        if any((cell.text() if isinstance(cell, Cell) else cell) not in ("", None) for cell in cells)
    }
    return table([*filled], zip(*filled.values(), strict=True), **parts)


def by_rows(rows: Sequence[Mapping[Column, Any]], **parts: Any) -> Section:
    """The same of rows, at least one, all with the same columns."""
    return table([*rows[0]], (row.values() for row in rows), **parts)


@dataclass(frozen=True)
class Report:
    """What a command has found.

    Attributes:
        name: of the table or the command.
        title: what it shows; empty on a screen that needs none.
        sections: its tables, maybe none.
        notes: below them all.
        footer: what a screen says in its last line.
        data: its facts for programs: dataclasses and plain values; None: the sections are its facts.
        empty: what is said if there is no section.
    """

    name: str
    title: str
    sections: Sequence[Section] = ()
    notes: Sequence[Note] = ()
    footer: Sequence[Note] = ()
    data: Any = field(default=None, repr=False)
    empty: Note = Note("nothing_to_show")
