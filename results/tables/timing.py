"""Table cells with the time of a step: its mean over runs, and footnotes where it is not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.display import counted
from harness.store.record import IMPORTED
from results.compare.select import Choice, Row
from results.compare.stats import summarize
from results.compare.summary import finite_values
from results.formats.cells import Cell
from results.frames.metrics import is_number, word
from results.frames.provenance import TIMING, timing
from results.tables import footnotes

_CPU = "cpu_seconds_per_step"
_SHARED_BELOW = 0.9  # below this ratio of CPU time to wall time, a process of one thread has shared its core

NOTE = (
    "ms/step is the mean over all steps after a warm-up, the optimizer's periodic work included, evaluations "
    "and checkpoints not; ± over the chosen setting's runs."
)
NOTE_IMPORTED = "ms/step is as others measured it; ± over runs."
_OLDER = "measured by an older version as a median, which misses periodic work: not comparable"


def cells(choices: Sequence[Choice]) -> list[Cell]:
    """Milliseconds per step, one cell per choice. Footnotes mark rows not measured like most others.

    Times under unlike conditions are never pooled: a cell is the mean over the runs under the conditions of
    most rows, else over those that most of its own runs share.
    """
    timed = [_timed_runs(choice) for choice in choices]
    usual = _usual(timed)
    return [_cell(runs, usual) if runs else Cell() for runs in timed]


def notes(timed: Sequence[Sequence[Row]]) -> list[tuple[str, ...]]:
    """Per row the footnotes that say why its time can't be compared with most others.

    They do not ask whether a core was shared: the paper's tables show a process's own time.

    Args:
        timed: the runs behind each row's time, under the same conditions; empty for a row without any.
    """
    usual = _usual(timed)
    return [_notes(runs, usual) if runs else () for runs in timed]


def _usual(timed: Iterable[Sequence[Row]]) -> tuple[str, ...]:
    """The conditions of most rows."""
    return _most_common(_most_common(map(timing, runs)) for runs in timed if runs)


def _most_common(found: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    counts = Counter(found).most_common(1)
    return counts[0][0] if counts else ()


def _cell(timed: Sequence[Row], usual: tuple[str, ...]) -> Cell:
    own = set(map(timing, timed))
    used = usual if usual in own else _most_common(map(timing, timed))
    runs = [run for run in timed if timing(run) == used]
    mean = summarize([1000 * float(run["seconds_per_step"]) for run in runs])
    left_out = _left_out(len(timed) - len(runs), own - {used}, used)
    notes = (*_notes(runs, usual), *_shared_cores(runs), *left_out)
    return Cell(mean, digits=2, notes=notes, runs=footnotes.keys(runs))


def _notes(runs: Sequence[Row], usual: tuple[str, ...]) -> tuple[str, ...]:
    known = all(is_number(run.get("timed_steps")) or run[IMPORTED] for run in runs)
    older = [] if known else [_OLDER]
    return (*_other_conditions(_most_common(map(timing, runs)), usual), *older)


def _timed_runs(choice: Choice) -> list[Row]:
    """The runs of the chosen setting (search and replicate stage) that have a time per step."""
    runs = [*choice.winner.runs, *choice.replicas] if choice.winner else []
    unique = {str(run["key"]): run for run in runs}.values()  # of others' runs both lists have the same
    return [run for run in unique if finite_values([run], "seconds_per_step")]


def _other_conditions(used: tuple[str, ...], usual: tuple[str, ...]) -> list[str]:
    if used == usual:
        return []
    return [f"measured with {_differing(used, usual)}: not comparable with the other rows"]


def _left_out(n: int, others: Iterable[tuple[str, ...]], used: tuple[str, ...]) -> list[str]:
    """The footnote on runs under other conditions, which are not in the mean."""
    if not n:
        return []
    conditions = " and ".join(_differing(one, used) for one in sorted(others))
    return [f"{counted(n, 'run')} with {conditions} not counted: times of unlike conditions"]


def _differing(conditions: tuple[str, ...], usual: tuple[str, ...]) -> str:
    pairs = zip(TIMING, conditions, usual, strict=True)
    return ", ".join(f"{name}={value}" for name, value, other in pairs if value != other)


def _shared_cores(runs: Sequence[Row]) -> list[str]:
    """The footnote for runs whose CPU time shows that other programs used the same cores."""
    shared = [run for run in runs if _cpu_per_wall(run) < _SHARED_BELOW]
    if not shared:
        return []
    milliseconds = 1000 * sum(float(run[_CPU]) for run in shared) / len(shared)
    return [
        f"{len(shared)} of {len(runs)} runs shared their cores: {milliseconds:.2f} ms of CPU time per step"
    ]


def _cpu_per_wall(run: Row) -> float:
    """CPU time / wall time per process; 1 where it is not known or has no meaning: several threads, a GPU."""
    wall = float(run["seconds_per_step"])
    if run.get("device") != "cpu" or word(run.get("threads")) != "1" or not wall:
        return 1.0
    return float(run[_CPU]) / (wall * float(run["processes"])) if is_number(run.get(_CPU)) else 1.0
