"""What a table consists of, whatever the format: cells, columns, sections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import ascii_lowercase

from results.compare.stats import Summary

# State of a cell without value -> (what is printed, what the legend says).
SYMBOLS = {
    "waiting": ("–", "not run yet"),
    "running": ("…", "running"),
    "diverged": ("div.", "diverged (@N: at step N): a result of its settings, not a failure"),
    "pruned": ("pruned", "stopped early by its search"),
    "failed": ("failed", "the run failed, for the reason given; 'htbench sweep retry' tries it again"),
    "damaged": (
        "damaged",
        "the record of the run and its curve do not agree, or the record is gone: no figure of it counts",
    ),
    "completed": ("n/a", "finished without a finite figure"),
}
NOTHING = "There is nothing to show: these sweeps have no such runs."
UNPLANNED = ("", "an empty cell is not in the plan")
CHOSEN = ("*", "chosen on the validation split")
_MOST_STEPS = 16  # columns of a grid that a page holds; a search tries a new value in each trial


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        value: a word, a number or a summary over seeds; None together with a `state` says why there is none.
        digits: decimals of a number; None prints up to six significant digits.
        state: a key of SYMBOLS if there is no value.
        detail: what the symbol needs beside it, for example the step.
        bold, chosen: how a value is emphasised.
        notes: footnotes, as text; the renderer gives them their marks.
        runs: keys of the runs that the value comes from; only CSV prints them.
    """

    value: str | float | Summary | None = None
    digits: int | None = None
    state: str = ""
    detail: str = ""
    bold: bool = False
    chosen: bool = False
    notes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()

    def number(self) -> float | None:
        """The number without its spread; None if there is none."""
        value = self.value.mean if isinstance(self.value, Summary) else self.value
        return value if isinstance(value, int | float) else None

    def text(self) -> str:
        """The cell in plain words, without marks."""
        if self.state:
            return SYMBOLS[self.state][0] + self.detail
        if isinstance(self.value, Summary):
            spread = "" if self.value.std is None else f" ± {self._format(self.value.std)}"
            return self._format(self.value.mean) + spread
        return self._format(self.value) if isinstance(self.value, int | float) else self.value or ""

    def _format(self, x: float) -> str:
        return f"{x:.6g}" if self.digits is None else f"{x:.{self.digits}f}"

    def noted(self, *notes: str) -> Cell:
        """The same cell with more footnotes."""
        return replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: in CSV; empty if it stays out of it.
        label: for people, with the unit.
        kind: `text`, `number` or `summary` (which is several columns in CSV).
        across: the value of the section's axis, if the column is one step of a grid.
        place: what tells the column from others of its name, as names and values of CSV columns: then CSV has
            a line per cell.
    """

    name: str
    label: str
    kind: str = "number"
    across: float | None = None
    place: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Section:
    """One workload's part of a table.

    Attributes:
        title: the workload in words.
        identity: the workload in CSV columns.
        columns, rows: the grid; a row has one cell per column.
        axis: what the columns with an `across` value are steps of; empty for a table that is no grid.
        notes: sentences that hold for the whole section.
        mixtures: why its numbers may not be comparable, in words; `--strict` refuses them.
    """

    title: str
    identity: dict[str, str]
    columns: list[Column]
    rows: list[list[Cell]]
    axis: str = ""
    notes: tuple[str, ...] = ()
    mixtures: tuple[str, ...] = ()

    def too_wide(self) -> str:
        """Where to look instead, if the grid has more columns than a page holds; empty if not."""
        steps = sum(column.across is not None for column in self.columns)
        if steps <= _MOST_STEPS:
            return ""
        return (
            f"{steps} values of {self.axis} were tried, too many for the columns of a page: "
            f"`htbench table --format csv` lists them, `htbench figure` draws them."
        )

    def marks(self) -> dict[str, str]:
        """The footnotes of the cells with their letters, in reading order; equal ones share a letter."""
        notes = dict.fromkeys(note for row in self.rows for cell in row for note in cell.notes)
        return {note: _letters(index) for index, note in enumerate(notes)}

    def legend(self) -> list[tuple[str, str]]:
        """The symbols used, with their meaning."""
        cells = [cell for row in self.rows for cell in row]
        legend = [CHOSEN] if any(cell.chosen for cell in cells) else []
        legend += [
            meaning for state, meaning in SYMBOLS.items() if any(cell.state == state for cell in cells)
        ]
        return [*legend, UNPLANNED] if self.axis and any(not cell.text() for cell in cells) else legend


def _letters(index: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    rest, last = divmod(index, len(ascii_lowercase))
    return (_letters(rest - 1) if rest else "") + ascii_lowercase[last]


@dataclass(frozen=True)
class Table:
    """A whole table: its name in `TABLES`, what it shows, and one section per workload, maybe none."""

    name: str
    title: str
    sections: list[Section]
