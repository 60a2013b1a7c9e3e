"""Table cells with the time of a step: its mean over runs, and footnotes where it is not comparable."""

from collections import Counter
from collections.abc import Iterable, Sequence

from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell
from htbench.results.compare.select import Choice, Row
from htbench.results.compare.stats import summarize
from htbench.results.compare.summary import finite_values
from htbench.results.frames.metrics import is_number, word
from htbench.results.frames.provenance import TIMING, timing
from htbench.results.tables.footnotes import list_keys

_CPU = "cpu_seconds_per_step"
_SHARED_BELOW = 0.9  # below this ratio of CPU time to wall time, a process of one thread has shared its core
Conditions = tuple[str, ...]  # the values of TIMING


def make_time_cells(choices: Iterable[Choice]) -> list[Cell]:
    """Milliseconds per step, one cell per choice. Footnotes mark rows not measured like most others.

    Times under unlike conditions are never pooled: a cell is the mean over the runs under the conditions of
    most rows, else over those that most of its own runs share.
    """
    timed = [_list_timed_runs(choice) for choice in choices]
    usual = _find_usual(timed)
    return [_make_cell(runs, usual) if runs else Cell() for runs in timed]


def note_other_conditions(timed: Sequence[Sequence[Row]]) -> list[tuple[Note, ...]]:
    """Per row the footnote that says why its time can't be compared with most others.

    It does not ask whether a core was shared: the paper's tables show a process's own time.

    Args:
        timed: the runs behind each row's time, under the same conditions; empty for a row without any.
    """
    usual = _find_usual(timed)
    return [_note_conditions(_find_most_common(map(timing, runs)), usual) if runs else () for runs in timed]


def _find_usual(timed: Iterable[Sequence[Row]]) -> Conditions:
    """The conditions of most rows."""
    return _find_most_common(_find_most_common(map(timing, runs)) for runs in timed if runs)


def _find_most_common(conditions: Iterable[Conditions]) -> Conditions:
    counts = Counter(conditions).most_common(1)
    return counts[0][0] if counts else ()


def _list_timed_runs(choice: Choice) -> list[Row]:
    """The runs of the chosen setting (search and replicate stage) that have a time per step."""
    runs = [*choice.winner.runs, *choice.replicas] if choice.winner else []
    unique = {run["key"]: run for run in runs}.values()  # of others' runs both lists have the same
    return [run for run in unique if finite_values([run], "seconds_per_step")]


def _make_cell(timed: Sequence[Row], usual: Conditions) -> Cell:
    conditions = set(map(timing, timed))
    used = usual if usual in conditions else _find_most_common(map(timing, timed))
    runs = [run for run in timed if timing(run) == used]
    mean = summarize([1000 * float(run["seconds_per_step"]) for run in runs])
    notes = list(_note_conditions(used, usual))
    if shared := [run for run in runs if _cpu_per_wall(run) < _SHARED_BELOW]:  # with other programs
        milliseconds = 1000 * sum(float(run[_CPU]) for run in shared) / len(shared)
        notes.append(Note("time_shared", shared=len(shared), count=len(runs), milliseconds=milliseconds))
    if len(runs) < len(timed):
        words = [_format_differences(unused, used) for unused in sorted(conditions - {used})]
        notes.append(Note("time_left_out", count=len(timed) - len(runs), conditions=words))
    return Cell(mean, digits=2, notes=tuple(notes), runs=list_keys(runs))


def _note_conditions(used: Conditions, usual: Conditions) -> tuple[Note, ...]:
    return () if used == usual else (Note("time_other", conditions=_format_differences(used, usual)),)


def _format_differences(conditions: Conditions, usual: Conditions) -> str:
    pairs = zip(TIMING, conditions, usual, strict=True)
    return ", ".join(f"{name}={value}" for name, value, other in pairs if value != other)


def _cpu_per_wall(run: Row) -> float:
    """CPU time / wall time per process; 1 where it is not known or has no meaning: several threads, a GPU."""
    wall = float(run["seconds_per_step"])
    if run.get("device") != "cpu" or word(run.get("threads")) != "1" or not wall:
        return 1.0
    return float(run[_CPU]) / (wall * float(run["processes"])) if is_number(run.get(_CPU)) else 1.0
