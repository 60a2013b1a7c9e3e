"""Table cells with the time of a step: its mean over runs, and footnotes where it is not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from results.analysis.metrics import is_number, word
from results.analysis.select import Choice, Row
from results.analysis.stats import summarize
from results.analysis.summary import finite_values
from results.formats.cells import Cell
from results.tables import footnotes

# Times are comparable only if these agree. Precision must agree as well, but all rows of a section share it.
_CONDITIONS = ("machine", "threads", "processes", "micro_batch", "compile")
_CPU = "cpu_seconds_per_step"
_SHARED_BELOW = 0.9  # below this ratio of CPU time to wall time, a process of one thread has shared its core

NOTE = (
    "ms/step is the mean over all steps after a warm-up, the optimizer's periodic work included, evaluations "
    "and checkpoints not; ± over the chosen setting's runs."
)
_OLDER = "measured by an older version as a median, which misses periodic work: not comparable"


def cells(choices: Sequence[Choice]) -> list[Cell]:
    """Milliseconds per step, one cell per choice. Footnotes mark rows not measured like most others."""
    timed = [_timed_runs(choice) for choice in choices]
    return [
        _cell(runs).noted(*own) if runs else Cell() for runs, own in zip(timed, notes(timed), strict=True)
    ]


def notes(timed: Sequence[Sequence[Row]]) -> list[tuple[str, ...]]:
    """Per row the footnotes that say why its time can't be compared with most others.

    Args:
        timed: the runs behind each row's time; empty for a row without any.
    """
    usual = Counter(_conditions(runs[0]) for runs in timed if runs).most_common(1)
    return [_notes(runs, usual[0][0]) if runs else () for runs in timed]


def _cell(runs: Sequence[Row]) -> Cell:
    mean = summarize([1000 * float(run["seconds_per_step"]) for run in runs])
    return Cell(mean, digits=2, runs=footnotes.keys(runs))


def _notes(runs: Sequence[Row], usual: tuple[str, ...]) -> tuple[str, ...]:
    older = [] if all(is_number(run.get("timed_steps")) for run in runs) else [_OLDER]
    return (*_other_conditions(runs, usual), *_shared_cores(runs), *older)


def _timed_runs(choice: Choice) -> list[Row]:
    """The runs of the chosen setting (search and replicate stage) that have a time per step."""
    runs = [*choice.winner.runs, *choice.replicas] if choice.winner else []
    return [run for run in runs if finite_values([run], "seconds_per_step")]


def _conditions(run: Row) -> tuple[str, ...]:
    return tuple(word(run.get(name)) for name in _CONDITIONS)


def _other_conditions(runs: Sequence[Row], usual: tuple[str, ...]) -> list[str]:
    found = sorted({_conditions(run) for run in runs})
    if found == [usual]:
        return []
    conditions = " and ".join(_differing(one, usual) or "as the others" for one in found)
    return [f"measured with {conditions}: not comparable with the other rows"]


def _differing(conditions: tuple[str, ...], usual: tuple[str, ...]) -> str:
    pairs = zip(_CONDITIONS, conditions, usual, strict=True)
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
