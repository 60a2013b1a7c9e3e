"""Files of other trainers to runs: tables to lines with meaning, and lines to runs."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from harness.config import Value
from harness.errors import UsageError
from harness.exchange import ours, tables, words
from harness.exchange.words import shown
from harness.show.note import Note

Facts = Mapping[str, Value]
RESTARTS = RUNS, LAST = "runs", "last"
# With a word for the run, _NAMES say which run a line is of; without one, all that is told but _NO_IDENTITY.
_NO_IDENTITY = (ours.HARDWARE, ours.SECONDS)
_NAMES = (ours.TASK, ours.MODEL, ours.RESULT, ours.RUN)


# --- lines ---


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

    def refuse(self, what: str) -> NoReturn:
        """Raise UsageError: one sentence on the line."""
        tables.refuse(self.file, self.number, what)


class Reader:
    """The lines of one table.

    Args:
        table: the file.
        means: of its columns.
        is_curve: whether a file that tells no run is one, called as the file.

    Attributes:
        columns: by our names.
        left: their names of columns, and of metrics, that mean nothing here.
        names: all their names of columns and of metrics.
        run: the run of all lines; empty if the lines tell it.
    """

    def __init__(self, table: tables.Table, means: ours.Meaning, *, is_curve: bool = True) -> None:
        self.table, self.means = table, means
        self.columns, self.left = means.columns(table.header)
        self.names = dict.fromkeys(table.header)
        self.run = self._run() if is_curve else ""
        of_lines = (ours.STEP, ours.METRIC)
        self._constants: Facts = {
            **({ours.RUN: self.run} if self.run else {}),
            **{name: value for name, value in means.constants.items() if name not in of_lines},
        }
        self._known: dict[tuple[str, ...], Facts] = {}  # a run says the same on each of its lines

    def _run(self) -> str:
        """A file that tells no run is one run. Were it several, a step would occur twice."""
        names = self.columns.keys() | self.means.constants.keys()
        if ours.RUN in names or (not self.table.run and {ours.SEED, ours.RESULT} & self.columns.keys()):
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
        measured = {name: column for name, column in self.columns.items() if ours.is_measured(name)}
        of_lines = {*measured, ours.STEP, ours.METRIC, ours.VALUE}
        of_run = {name: column for name, column in self.columns.items() if name not in of_lines}
        named = {ours.RUN, ours.SEED}
        for number, cells in self.table.lines:
            try:
                facts, values = self._facts(of_run, cells), self._values(measured, cells)
                is_named = self.table.run or (not self.run and not named.isdisjoint(facts))
                yield Line(self.table.name, number, facts, self._step(cells), values, bool(is_named))
            except UsageError as error:
                tables.refuse(self.table.name, number, error)

    def meanings(self) -> str:
        """What each column means, in words."""
        columns = self.columns.items()
        meanings = [our if our == column.words else f"{our} = {column.words}" for our, column in columns]
        return f"'{self.table.name}': {words.listed(meanings)}"

    def left_out(self, more: Sequence[str] = ()) -> list[Note]:
        """What nobody has told the meaning of."""
        names = [*self.left, *more]
        return [Note("import_left_out", file=self.table.name, names=words.listed(names))] if names else []

    def _facts(self, columns: Mapping[str, ours.Column], cells: Sequence[str]) -> Facts:
        texts = tuple(cells[column.index] for column in columns.values())
        if texts not in self._known:
            facts = dict(self._constants)
            for (name, column), text in zip(columns.items(), texts, strict=True):
                if text.strip():
                    text = repr(column.number(cells, name)) if column.factor != 1 else text.strip()
                    facts[name] = ours.constant(name, text, self.table.header[column.index])
            self._known[texts] = facts
        return self._known[texts]

    def _step(self, cells: Sequence[str]) -> int | None:
        column = self.columns.get(ours.STEP)
        if column is None:
            constant_step: int | None = self.means.constants.get(ours.STEP)
            return constant_step
        if not cells[column.index].strip():
            return None
        value = column.number(cells, ours.STEP)
        near = float(round(value)) if math.isfinite(value) else value
        with words.beginning(ours.STEP):  # in another unit it may miss a whole number in its last digits
            return words.whole(near if math.isclose(value, near, rel_tol=1e-9) else value)

    def _values(self, measured: Mapping[str, ours.Column], cells: Sequence[str]) -> dict[str, float | None]:
        columns = {name: column for name, column in measured.items() if cells[column.index].strip()}
        if ours.METRIC in self.columns or ours.METRIC in self.means.constants:
            columns |= self._of_metric(cells)
        values = {name: column.number(cells, name) for name, column in columns.items()}
        return {name: value if math.isfinite(value) else None for name, value in values.items()}

    def _of_metric(self, cells: Sequence[str]) -> dict[str, ours.Column]:
        """The metric of a line that names it in one cell and tells it in another."""
        if ours.VALUE not in self.columns:
            raise UsageError("the column metric needs a column value beside it.")
        theirs = str(self.means.constants.get(ours.METRIC) or cells[self.columns[ours.METRIC].index].strip())
        self.names[theirs] = None
        name, column = self.means.of_metric(theirs, self.columns[ours.VALUE].index)
        if ours.is_measured(name):
            return {name: column} if cells[column.index].strip() else {}
        if theirs not in self.left:
            self.left.append(theirs)
        return {}


# --- runs ---


@dataclass
class Gathered:
    """All that the files say of one run.

    Attributes:
        facts: what is told of it, by our names.
        places: by the same names the line that told it.
        curve: by step, then by metric: what was measured; the last line counts.
        doubled: the steps at which a metric was told more than once.
        differing: those at which the values differ.
        last: the last line with a value.
        remarks: what a reader should know.
        stretch: which of the runs of one log it is, one after the other; 1 for the first or only one.
    """

    facts: dict[str, Value] = field(default_factory=dict)
    places: dict[str, Line] = field(default_factory=dict)
    curve: dict[int, dict[str, float | None]] = field(default_factory=dict)
    doubled: set[int] = field(default_factory=set)
    differing: set[int] = field(default_factory=set)
    last: Line | None = None
    remarks: list[Note] = field(default_factory=list)
    stretch: int = 1

    @property
    def name(self) -> str:
        """The run in a sentence."""
        word = f"run {shown(str(self.facts[ours.RUN]))}" if ours.RUN in self.facts else "the run"
        result = f" of {shown(str(self.facts[ours.RESULT]))}" if ours.RESULT in self.facts else ""
        return f"{word}{result}" + (f", seed {self.facts[ours.SEED]}" if ours.SEED in self.facts else "")

    def values_of(self, names: Iterable[str]) -> tuple[Value, ...]:
        """Some of the facts; None for what is not told."""
        return tuple(self.facts.get(name) for name in names)

    def tell(self, line: Line) -> None:
        """Add the facts of a line.

        Raises:
            UsageError: another line says otherwise.
        """
        for name, value in line.facts.items():
            place = self.places.setdefault(name, line)
            if self.facts.setdefault(name, value) != value:
                where = f"in line {place.number}" + (f" of '{place.file}'" if place.file != line.file else "")
                before, here = shown(str(self.facts[name])), shown(str(value))
                line.refuse(
                    f"{self.name} has {name} {here}, but {before} {where}; one run has one value. "
                    "`--drop COLUMN` leaves out what changes during a run."
                )

    def begins_anew(self, line: Line) -> bool:
        """Whether a line returns to the first step of a curve that has gone on since."""
        if len(self.curve) < 2 or self.last is None or line.file != self.last.file:
            return False
        step, row = next(iter(self.curve.items()))
        return line.step == step and not line.values.keys().isdisjoint(row)

    def measure(self, line: Line) -> None:
        """Add the values of a line.

        Raises:
            UsageError: they have no step, or nothing tells why there are two at one step.
        """
        if not line.values:
            return
        if line.step is None:
            line.refuse("it has no step; name its column, `--map step=COLUMN`, or `--set step=N`.")
        row = self.curve.setdefault(line.step, {})
        twice = row.keys() & line.values.keys()
        if twice and not line.is_named:
            line.refuse(
                f"{self.name} has step {line.step} twice, and no column run or seed tells whether these are "
                "two runs."
            )
        self.doubled |= {line.step} if twice else set()
        self.differing |= {line.step} if any(row[name] != line.values[name] for name in twice) else set()
        row.update(line.values)
        self.last = line


def gather(lines: Iterable[Line], restarts: str = "") -> list[Gathered]:
    """The runs, in the order in which they appear first; those of one log one after the other.

    Args:
        lines: of all files.
        restarts: a word of RESTARTS: what it means that a log returns to its first step; empty: an error.

    Raises:
        UsageError: lines of one run contradict each other, or nothing tells which lines are of one run.
    """
    runs: dict[Hashable, list[Gathered]] = defaultdict(lambda: [Gathered()])
    for line in lines:
        facts = line.facts
        named = ours.RUN in facts
        stretches = runs[
            tuple(facts.get(name) for name in _NAMES)
            if named
            else frozenset((name, value) for name, value in facts.items() if name not in _NO_IDENTITY)
        ]
        if stretches[-1].begins_anew(line) and line.is_named:
            if restarts not in RESTARTS:
                line.refuse(
                    f"{stretches[-1].name} returns to its first step, {line.step}. `--restarts runs` makes "
                    "runs of what its log has one after the other, `--restarts last` lets the last line of a "
                    "step count."
                )
            if restarts == RUNS:
                stretches.append(Gathered(stretch=len(stretches) + 1))
        stretches[-1].tell(line)
        stretches[-1].measure(line)
    gathered = [run for stretches in runs.values() for run in stretches if run.curve]
    _check_split(gathered)
    return gathered


def _check_split(runs: Sequence[Gathered]) -> None:
    """Refuse runs without a name that share no step: a column that changes during a run has divided them."""
    alike: dict[Hashable, list[Gathered]] = defaultdict(list)
    for run in runs:
        if ours.RUN not in run.facts:
            alike[run.values_of((ours.TASK, ours.MODEL, ours.RESULT, ours.SEED))].append(run)
    for group in alike.values():
        if len(group) > 1 and max(Counter(step for run in group for step in run.curve).values()) == 1:
            first = group[0]
            changing = {n for run in group for n in run.facts if run.facts[n] != first.facts.get(n)}
            raise UsageError(
                f"{words.capital(first.name)} changes its {' and '.join(sorted(changing))} from line to "
                "line; leave that column out with --drop, or tell the runs apart by a column run."
            )


def join(runs: Sequence[Gathered], lines: Sequence[Line], file: str) -> list[Note]:
    """Add what a file with a line per run says.

    Returns:
        remarks on runs without such a line, and on lines without a run.

    Raises:
        UsageError: the file does not tell which run a line is of, or contradicts the curves.
    """
    known = {name for run in runs for name in run.facts} & {name for line in lines for name in line.facts}
    shared = [name for name in (*_NAMES, ours.SEED) if name in known]
    if ours.RUN not in shared and not {ours.RESULT, ours.SEED} <= set(shared):
        raise UsageError(f"'{file}' and the curves must both have a column run, or both result and seed.")
    by_name: dict[Hashable, Line] = {}
    for line in lines:
        other = by_name.setdefault(tuple(line.facts.get(name) for name in shared), line)
        if other is not line:
            line.refuse(f"it is of the same run as line {other.number}; give a line per run.")
    used: dict[Hashable, Gathered] = {}
    without = 0
    for run in runs:
        key = run.values_of(shared)
        if key not in by_name:
            without += 1
            continue
        if key in used and run.stretch == 1:
            by_name[key].refuse(
                f"it fits {used[key].name} and {run.name}; give both files the columns that tell them apart."
            )
        used[key] = run
        run.tell(by_name[key])
    remarks = [Note("import_no_line", runs=without, all=len(runs), file=file)] if without else []
    idle = len(by_name) - len(used)
    return remarks + ([Note("import_no_curve", lines=idle, all=len(by_name), file=file)] if idle else [])


# --- all files ---


@dataclass(frozen=True)
class Read:
    """What the files say.

    Attributes:
        runs: as `harness.exchange.foreign` takes them.
        remarks: what was left out.
        files: name, bytes and SHA-256 of every file.
        meanings: of the columns of every file, in words.
    """

    runs: list[Gathered]
    remarks: list[Note]
    files: list[dict[str, Any]]
    meanings: list[str]


def read(curves: Sequence[Path], runs: Path | None, means: ours.Meaning, restarts: str = "") -> Read:
    """Read files with curves, and perhaps one with a line per run.

    Args:
        curves: CSV files, or folders of event files.
        runs: a CSV file.
        means: of their columns.
        restarts: a word of RESTARTS, or empty.

    Raises:
        UsageError: a file can't be read, or does not say what it must; one sentence.
    """
    files = _files([*curves, *([runs] if runs is not None else [])])
    readers = [Reader(table, means) for path in curves for table in tables.read(path)]
    names = Counter(reader.run for reader in readers if reader.run)
    for reader in readers:
        if names[reader.run] > 1:
            raise UsageError(
                f"Two files would be the run '{reader.run}', one of them '{reader.table.name}'; give them "
                "other names, or a column run."
            )
    gathered = gather((line for reader in readers for line in reader.lines()), restarts)
    for run in gathered:
        values = sum(reader.table.means.get(str(run.facts.get(ours.RUN)), 0) for reader in readers)
        run.remarks += [Note("import_means", values=values)] if values else []
    remarks = [note for reader in readers for note in reader.left_out()]
    if runs is not None:
        about = Reader(tables.read_runs(runs), means, is_curve=False)
        remarks += join(gathered, list(about.lines()), about.table.name)
        idle = [name for name in about.columns if name == ours.STEP or ours.is_measured(name)]
        remarks += about.left_out(idle)
        readers.append(about)
    means.check_used(name for reader in readers for name in reader.names)
    return Read(gathered, list(dict.fromkeys(remarks)), files, [reader.meanings() for reader in readers])


def _files(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """What was read, so that it can be found again. Folders are named with their event files."""
    files: list[dict[str, Any]] = []
    for path in paths:
        for file in tables.files(path):
            data = tables.content(file)
            try:
                name = words.word(str(file.relative_to(path.parent)))
            except UsageError as error:
                raise UsageError(f"The file {error}.") from None
            entry = {"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            if entry in files:
                raise UsageError(f"'{path}' is given twice; name each file once.")
            files.append(entry)
    return files
