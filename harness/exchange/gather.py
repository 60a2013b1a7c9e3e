"""Lines of files to runs: which lines are of one run, and what they say of it together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.config import Value
from harness.errors import UsageError
from harness.exchange.csv_file import refuse
from harness.exchange.mapping import HARDWARE, MODEL, RESULT, RUN, SECONDS, SEED, TASK
from harness.exchange.tidy import Line
from harness.exchange.words import capital, shown

# With a word for the run, these say which run a line is of; without one, all that is told of it.
_NAMES = (TASK, MODEL, RESULT, RUN)


RESTARTS = RUNS, LAST = "runs", "last"


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
        notes: for its record.
        stretch: which of the runs of one log it is, one after the other; 1 for the first or only one.
    """

    facts: dict[str, Value] = field(default_factory=dict)
    places: dict[str, Line] = field(default_factory=dict)
    curve: dict[int, dict[str, float | None]] = field(default_factory=dict)
    doubled: set[int] = field(default_factory=set)
    differing: set[int] = field(default_factory=set)
    last: Line | None = None
    notes: list[str] = field(default_factory=list)
    stretch: int = 1

    @property
    def name(self) -> str:
        """The run in a sentence."""
        told = self.facts
        word = f"run {shown(told[RUN])}" if RUN in told else "the run"
        result = f" of {shown(told[RESULT])}" if RESULT in told else ""
        return f"{word}{result}" + (f", seed {told[SEED]}" if SEED in told else "")

    def tell(self, line: Line) -> None:
        """Add the facts of a line.

        Raises:
            UsageError: another line says otherwise.
        """
        for name, value in line.facts.items():
            if self.facts.setdefault(name, value) != value:
                self._contradict(name, line)
            self.places.setdefault(name, line)

    def _contradict(self, name: str, line: Line) -> None:
        before = self.places[name]
        where = f"in line {before.number}" + (f" of '{before.file}'" if before.file != line.file else "")
        told, here = shown(str(self.facts[name])), shown(str(line.facts[name]))
        refuse(
            line.file,
            line.number,
            f"{self.name} has {name} {here}, but {told} {where}; one run has one value. `--drop COLUMN` "
            "leaves out what changes during a run.",
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
            UsageError: they have no step.
        """
        if not line.values:
            return
        if line.step is None:
            refuse(
                line.file,
                line.number,
                "it has no step; name its column, `--map step=COLUMN`, or `--set step=N`.",
            )
        row = self.curve.setdefault(line.step, {})
        for name, value in line.values.items():
            if name in row:
                self.doubled.add(line.step)
                self.differing.update({line.step} if row[name] != value else ())
            row[name] = value
        self.last = line


def gather(lines: Iterable[Line], restarts: str = "") -> list[Gathered]:
    """The runs, in the order in which they appear first.

    Args:
        lines: of all files.
        restarts: a word of RESTARTS: what it means that a log returns to its first step; empty: an error.

    Raises:
        UsageError: lines of one run contradict each other, or nothing tells which lines are of one run.
    """
    runs: dict[Hashable, Gathered] = {}
    stretches: Counter[Hashable] = Counter()
    for line in lines:
        identity = _identity(line.facts)
        run = runs.setdefault((identity, stretches[identity]), Gathered())
        if run.begins_anew(line) and line.is_named:
            if restarts not in RESTARTS:
                _ask_about_restart(run, line)
            if restarts == RUNS:
                stretches[identity] += 1
                run = runs[identity, stretches[identity]] = Gathered(stretch=stretches[identity] + 1)
        run.tell(line)
        doubled = len(run.doubled)
        run.measure(line)
        if len(run.doubled) > doubled and not line.is_named:
            refuse(
                line.file,
                line.number,
                f"{run.name} has step {line.step} twice, and no column run or seed tells whether these are "
                "two runs.",
            )
    found = [run for run in runs.values() if run.curve]
    _check_split(found)
    return found


def _ask_about_restart(run: Gathered, line: Line) -> None:
    refuse(
        line.file,
        line.number,
        f"{run.name} returns to its first step, {line.step}. `--restarts runs` makes runs of what its log "
        "has one after the other, `--restarts last` lets the last line of a step count.",
    )


def _identity(facts: Mapping[str, Value]) -> Hashable:
    if RUN in facts:
        return tuple(facts.get(name) for name in _NAMES)
    return frozenset((name, value) for name, value in facts.items() if name not in (HARDWARE, SECONDS))


def _check_split(runs: Sequence[Gathered]) -> None:
    """Refuse runs without a name that share no step: a column that changes during a run has divided them."""
    alike: dict[Hashable, list[Gathered]] = {}
    for run in runs:
        if RUN not in run.facts:
            alike.setdefault(tuple(run.facts.get(name) for name in (TASK, MODEL, RESULT, SEED)), []).append(
                run
            )
    for group in alike.values():
        if len(group) > 1 and max(Counter(step for run in group for step in run.curve).values()) == 1:
            first = group[0]
            changing = {n for one in group for n in one.facts if one.facts[n] != first.facts.get(n)}
            names, where = " and ".join(sorted(changing)), capital(first.name)
            raise UsageError(
                f"{where} changes its {names} from line to line; leave that column out with --drop, or tell "
                "the runs apart by a column run."
            )


# --- a second file with a line per run ---


def join(runs: Sequence[Gathered], lines: Sequence[Line], file: str) -> list[str]:
    """Add what a file with a line per run says.

    Returns:
        remarks on runs without such a line, and on lines without a run.

    Raises:
        UsageError: the file does not tell which run a line is of, or contradicts the curves.
    """
    told = {name for line in lines for name in line.facts}
    known = {name for run in runs for name in run.facts}
    shared = [name for name in (*_NAMES, SEED) if name in told & known]
    if RUN not in shared and not {RESULT, SEED} <= set(shared):
        raise UsageError(f"'{file}' and the curves must both have a column run, or both result and seed.")
    by_name: dict[Hashable, Line] = {}
    for line in lines:
        key = tuple(line.facts.get(name) for name in shared)
        if (other := by_name.setdefault(key, line)) is not line:
            refuse(file, line.number, f"it is of the same run as line {other.number}; give a line per run.")
    used = _tell_runs(runs, by_name, shared)
    without = [run for run in runs if tuple(run.facts.get(name) for name in shared) not in used]
    remarks = [f"{len(without)} of {len(runs)} runs have no line in '{file}'"] if without else []
    idle = len(by_name) - len(used)
    return remarks + (
        [f"{idle} of {len(by_name)} lines of '{file}' are of runs without a curve"] if idle else []
    )


def _tell_runs(
    runs: Sequence[Gathered], by_name: Mapping[Hashable, Line], shared: Sequence[str]
) -> dict[Hashable, Gathered]:
    used: dict[Hashable, Gathered] = {}
    for run in runs:
        key = tuple(run.facts.get(name) for name in shared)
        if key not in by_name:
            continue
        if key in used and run.stretch == 1:
            line = by_name[key]
            refuse(
                line.file,
                line.number,
                f"it fits {used[key].name} and {run.name}; give both files the columns that tell them apart.",
            )
        used[key] = run
        run.tell(by_name[key])
    return used
