"""Tables of text to lines with meaning: facts of a run, a step, and what was measured after it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config import Value
from harness.errors import UsageError
from harness.exchange import words
from harness.exchange.csv_file import Table, refuse
from harness.exchange.mapping import (
    METRIC,
    RESULT,
    RUN,
    SEED,
    STEP,
    VALUE,
    Column,
    Meaning,
    constant,
    is_measured,
)

Facts = Mapping[str, Value]


@dataclass(frozen=True)
class Line:
    """One line of a file.

    Attributes:
        file, number: where it stands.
        facts: what it says of its run, by our names; no entry for an empty cell.
        step: None if it has none.
        values: what was measured after the step, by metric; None: not finite.
        is_named: whether the file says which run or which seed it is of.
    """

    file: str
    number: int
    facts: Facts
    step: int | None
    values: Mapping[str, float | None]
    is_named: bool


class Reader:
    """The lines of one table.

    Args:
        table: the file.
        means: of its columns.

    Attributes:
        columns: by our names.
        left: their names of columns, and of metrics, that mean nothing here.
        names: all their names of columns and of metrics.
        run: the run of all lines, called as the file; empty if the lines tell it.
    """

    def __init__(self, table: Table, means: Meaning, *, is_curve: bool = True) -> None:
        self.table, self.means = table, means
        self.columns, self.left = means.columns(table.header)
        self.names = dict.fromkeys(table.header)
        self._measured = {name: one for name, one in self.columns.items() if is_measured(name)}
        self._facts = {
            name: one
            for name, one in self.columns.items()
            if name not in self._measured and name not in (STEP, METRIC, VALUE)
        }
        self.run = self._run() if is_curve else ""
        constants = {name: one for name, one in means.constants.items() if name not in (STEP, METRIC)}
        self._told_before: Facts = {RUN: self.run, **constants} if self.run else constants
        self._known: dict[tuple[str, ...], Facts] = {}  # a run says the same on each of its lines

    def _run(self) -> str:
        """A file that tells no run is one run. Were it several, a step would occur twice."""
        told = self.columns.keys() | self.means.constants.keys()
        if RUN in told or (not self.table.run and {SEED, RESULT} & self.columns.keys()):
            return ""
        try:
            return words.word(self.table.run or Path(self.table.name).stem)
        except UsageError as error:
            raise UsageError(f"The name of the file {error}.") from None

    def lines(self) -> Iterator[Line]:
        """All lines, in the order of the file.

        Raises:
            UsageError: a cell that can't be what its column means; one sentence with file and line.
        """
        for number, cells in self.table.lines:
            try:
                facts, step, values = self._facts_of(cells), self._step(cells), self._values(cells)
                named = bool(self.table.run) or (not self.run and (RUN in facts or SEED in facts))
                yield Line(self.table.name, number, facts, step, values, named)
            except UsageError as error:
                refuse(self.table.name, number, error)

    def meanings(self) -> str:
        """What each column means, in words."""
        header = self.table.header
        told = {name: one.told(header[one.index]) for name, one in self.columns.items()}
        return words.listed(
            [name if name == theirs else f"{name} = {theirs}" for name, theirs in told.items()]
        )

    def _facts_of(self, cells: Sequence[str]) -> Facts:
        told = tuple(cells[one.index] for one in self._facts.values())
        if told not in self._known:
            found = {name: self._fact(name, one, cells) for name, one in self._facts.items()}
            own = {name: value for name, value in found.items() if value is not None}
            self._known[told] = {**self._told_before, **own}
        return self._known[told]

    def _fact(self, name: str, column: Column, cells: Sequence[str]) -> Value:
        text = cells[column.index].strip()
        if not text:
            return None
        if (column.times, column.over) != ("1", "1"):
            text = repr(_cell(column, cells, name))
        return constant(name, text, self.table.header[column.index])

    def _step(self, cells: Sequence[str]) -> int | None:
        column = self.columns.get(STEP)
        if column is None:
            constant_step: int | None = self.means.constants.get(STEP)
            return constant_step
        if not cells[column.index].strip():
            return None
        value = _cell(column, cells, STEP)
        try:
            return words.whole(_rounded(value))
        except UsageError as error:
            raise UsageError(f"{STEP}: {error}.") from None

    def _values(self, cells: Sequence[str]) -> dict[str, float | None]:
        found = {
            name: _cell(one, cells, name) for name, one in self._measured.items() if cells[one.index].strip()
        }
        if METRIC in self.columns or METRIC in self.means.constants:
            found |= self._long(cells)
        return {name: value if math.isfinite(value) else None for name, value in found.items()}

    def _long(self, cells: Sequence[str]) -> dict[str, float]:
        """The metric of a line that names it in one cell and tells it in another."""
        value = self.columns.get(VALUE)
        if value is None:
            raise UsageError("the column metric needs a column value beside it.")
        theirs = self.means.constants.get(METRIC) or cells[self.columns[METRIC].index].strip()
        self.names[str(theirs)] = None
        name, factor = self.means.name(str(theirs))
        if not is_measured(name):
            if theirs not in self.left:
                self.left.append(str(theirs))
            return {}
        if not cells[value.index].strip():
            return {}
        return {name: _cell(Column(value.index, factor.times, factor.over), cells, name)}


def _cell(column: Column, cells: Sequence[str], name: str) -> float:
    try:
        return column.number(cells)
    except UsageError as error:
        raise UsageError(f"{name}: {error}.") from None


def _rounded(value: float) -> float:
    """A step in another unit may miss a whole number in its last digits."""
    near = round(value) if math.isfinite(value) else value
    return float(near) if math.isclose(value, near, rel_tol=1e-9) else value
