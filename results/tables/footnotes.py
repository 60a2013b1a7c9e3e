"""Cells and footnotes in words: why a value is missing, and how far a choice can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from harness.display import counted
from results.compare.edges import edges
from results.compare.select import WORKLOAD, Candidate, Choice, Row, has_stages
from results.compare.summary import metric_summary
from results.formats.cells import SYMBOLS, Cell
from results.frames import imported
from results.frames.metrics import Metric, reported, word
from results.frames.rows import rows
from results.tables import next_points

SPREAD = "± is the sample standard deviation over seeds; a single seed (n=1) has none."

_EMBEDDED_TASKS = ("pydocs", "digits", "glyphs")
_PAPER = "protocol=paper"
_CHOSEN_ON_TEST = (
    f"{_PAPER}: as in the paper, all data but the reported split is trained on, and settings are chosen on "
    f"that split, which is called val as well. A row gains from every further setting, so nothing is bold."
)
_OTHERS = (
    "Imported as {name}: runs of other trainers, as their files tell them. Where a file has one evaluation "
    "set, its figures stand as val and as test."
)
_UNPLANNED = "No sweep plans these runs. How many others were tried is not known, so nothing is bold."
_FAILURES = {
    "oom": "out of memory",
    "timeout": "its time limit was reached",
    "killed": "two processes in a row were killed before their first checkpoint",
    "error": "an exception, which its log.txt shows",
}
_COUNTED = {"waiting": "not run yet", "completed": "without a finite figure"}


# --- the workload ---


def title(part: pd.DataFrame) -> str:
    """The workload of a part of the frame: "pydocs, llama-nano (steps=100)"."""
    task, model, setting = part[list(WORKLOAD)].iloc[0]
    return f"{task}, {model}" + (f" ({setting})" if setting else "")


def identity(part: pd.DataFrame) -> dict[str, str]:
    """The workload as CSV columns."""
    return {name: str(part[name].iloc[0]) for name in WORKLOAD}


def origin(part: pd.DataFrame) -> tuple[str, ...]:
    """The footnotes on whose numbers these are, and on the protocol if it is that of the paper."""
    name = imported.source(part)
    if name:
        return (_OTHERS.format(name=name),)
    if not has_stages(rows(part)[0]):
        return (_UNPLANNED,)
    embedded = ", embedded data" if part["task"].iloc[0] in _EMBEDDED_TASKS else ""
    published_way = (_CHOSEN_ON_TEST,) if chosen_on_test(part) else ()
    return (*published_way, f"Ours{embedded}, not the paper's numbers.")


def chosen_on_test(part: pd.DataFrame) -> bool:
    """Whether settings are chosen on the split that is reported."""
    return _PAPER in str(part["setting"].iloc[0]).split(", ")


# --- cells ---


def validation(choice: Choice, metric: Metric) -> Cell:
    """The winner's validation metric over its search seeds, or why there is none."""
    if choice.winner is None:
        return missing(choice)
    return Cell(
        metric_summary(choice.winner.runs, "val", metric), metric.digits, runs=keys(choice.winner.runs)
    )


def keys(runs: Sequence[Row]) -> tuple[str, ...]:
    """The keys of those runs that exist."""
    return tuple(str(run["key"]) for run in runs if "/" not in str(run["key"]))  # an empty slot has none


def missing(choice: Choice) -> Cell:
    """Why a group has no winner."""
    runs = [run for candidate in choice.candidates for run in candidate.runs]
    return explain([run for run in runs if run["state"] == choice.state])


def explain(runs: Sequence[Row]) -> Cell:
    """The cell for runs that share a state without value: its symbol, and the reason as footnote."""
    state = str(runs[0]["state"])
    reasons = sorted({str(run["reason"]) for run in runs} - {""})
    if state == "failed":
        notes = tuple(f"run {run['key']}: {_FAILURES.get(run['reason'], run['reason'])}" for run in runs)
        return Cell(state=state, detail=f" ({', '.join(reasons)})", notes=notes, runs=keys(runs))
    if state == "damaged":
        return Cell(
            state=state, notes=tuple(f"run {run['key']}: {run['reason']}" for run in runs), runs=keys(runs)
        )
    if state == "diverged":
        steps = [int(run["steps"]) for run in runs]
        first, last = min(steps), max(steps)
        notes = tuple(sorted({reason.rpartition(" at step ")[0] or reason for reason in reasons}))
        detail = f"@{first}" + (f"-{last}" if last > first else "")
        return Cell(state=state, detail=detail, notes=notes, runs=keys(runs))
    return Cell(state=state, notes=tuple(reasons), runs=keys(runs))


# --- how far to trust a choice ---


def unfinished(choice: Choice) -> tuple[str, ...]:
    """The footnote to a choice that may still change."""
    if not choice.unfinished:
        return ()
    total = len(choice.candidates)
    done = total - choice.unfinished.total()
    return (f"the choice is not final: {done} of {total} settings are finished, {tally(choice.unfinished)}",)


def stale(choice: Choice) -> tuple[str, ...]:
    """The footnotes on replicas that are not fresh."""
    return tuple(
        f"{n} replicas share a seed with the search of sweep {sweep}: not counted"
        if n > 1
        else f"1 replica shares a seed with the search of sweep {sweep}: not counted"
        for sweep, n in sorted(choice.stale.items())
    )


def fewer(what: str, n: int, others: Iterable[int]) -> tuple[str, ...]:
    """The footnote to a value over fewer seeds than others: "chosen on 1 seed, others on 3"."""
    most = max(others, default=n)
    return (f"{what} {counted(n, 'seed')}, others on {most}",) if n < most else ()


def seeds_of_search(choices: Iterable[Choice]) -> list[int]:
    """On how many seeds each candidate was searched."""
    return [len(candidate.runs) for choice in choices for candidate in choice.candidates]


def caveats(
    part: pd.DataFrame, choice: Choice, axes: list[str], rivals: Sequence[Choice] = ()
) -> dict[str, tuple[str, ...]]:
    """Footnotes to a choice by column: optima at an edge; under "lr" also ties.

    Args:
        part: the frame of the workload.
        choice: one with a winner.
        axes: the columns that were searched.
        rivals: all rows of the table, this one too: could it win with one more point beyond the edge?
    """
    assert choice.winner is not None
    metric = reported(part)[0]
    notes: dict[str, tuple[str, ...]] = {"lr": _tie(choice.winner, choice.tied, axes)}
    if not has_stages(choice.winner.runs[0]):
        return notes  # there is no grid here that could get another point
    for column, edge in edges(part, choice.winner, axes).items():
        hint = next_points.hint(edge)
        more = f"; to go on, {hint}" if hint else ""
        outlook = next_points.outlook(column, edge, choice, rivals, axes, metric)
        place = "grid" if edge.place == "grid" else "searched range"
        sentence = f"{column}={edge.value:g} is at the edge of its {place}{more}{outlook}"
        notes[column] = (*notes.get(column, ()), sentence)
    return notes


def _tie(chosen: Candidate, tied: list[Candidate], axes: list[str]) -> tuple[str, ...]:
    if not tied:
        return ()
    names = [axis for axis in axes if plain(chosen.value(axis)) is not None]
    others = "; ".join(", ".join(f"{name}={word(one.value(name))}" for name in names) for one in tied)
    return (f"same validation metric as {others}; the validation loss, then the order of the plan decided",)


def tally(counts: Mapping[str, int]) -> str:
    """Numbers of runs by state, in words: "1 running, 2 not run yet"."""
    states = [state for state in SYMBOLS if counts.get(state)]
    return ", ".join(f"{counts[state]} {_COUNTED.get(state, state)}" for state in states)


def listing(words: list[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def plain(value: Any) -> str | float | None:
    """A setting as a cell's value: numbers stay numbers, NaN is nothing, the rest is words."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if pd.isna(value) else value
    return None if value is None else word(value)
