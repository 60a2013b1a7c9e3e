"""The time of a step: the mean over the chosen setting's runs, with a footnote where it is not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from results.analysis.metrics import is_number, word
from results.analysis.select import Choice, Row
from results.analysis.stats import summarize
from results.analysis.summary import finite_values
from results.formats.cells import Cell
from results.tables import footnotes

# What must be alike if times are compared; precision is among the settings that a section shares.
_CONDITIONS = ("machine", "threads", "processes", "micro_batch", "compile")
_CPU = "cpu_seconds_per_step"
_SHARED = 0.9  # a process of one thread that gets less of its core than this has shared it

NOTE = (
    "ms/step is the mean over all steps after a warm-up, the optimizer's periodic work included, evaluations "
    "and checkpoints not; ± over the chosen setting's runs."
)
_OLDER = "measured by an older version as a median, which misses periodic work: not comparable"


def cells(choices: Sequence[Choice]) -> list[Cell]:
    """ms/step of each row; rows that were not measured as most others were are marked."""
    timed = [_timed(choice) for choice in choices]
    usual = Counter(_conditions(runs[0]) for runs in timed if runs).most_common(1)
    return [_cell(runs, usual[0][0]) if runs else Cell() for runs in timed]


def _cell(runs: Sequence[Row], usual: tuple[str, ...]) -> Cell:
    mean = summarize([1000 * float(run["seconds_per_step"]) for run in runs])
    notes = [*_other_conditions(runs, usual), *_shared(runs)]
    notes += [_OLDER] if not all(is_number(run.get("timed_steps")) for run in runs) else []
    return Cell(mean, digits=2, notes=tuple(notes), runs=footnotes.keys(runs))


def _timed(choice: Choice) -> list[Row]:
    """The runs of the chosen setting whose time is known."""
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


def _shared(runs: Sequence[Row]) -> list[str]:
    """The footnote on runs whose CPU time shows that other programs used the same cores."""
    shared = [run for run in runs if _share(run) < _SHARED]
    if not shared:
        return []
    milliseconds = 1000 * sum(float(run[_CPU]) for run in shared) / len(shared)
    return [
        f"{len(shared)} of {len(runs)} runs shared their cores: {milliseconds:.2f} ms of CPU time per step"
    ]


def _share(run: Row) -> float:
    """The part of its cores that a run got; 1 where that can't be known, with several threads or on a GPU."""
    wall = float(run["seconds_per_step"])
    if run.get("device") != "cpu" or word(run.get("threads")) != "1" or not wall:
        return 1.0
    return float(run[_CPU]) / (wall * float(run["processes"])) if is_number(run.get(_CPU)) else 1.0
