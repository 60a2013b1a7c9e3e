"""Why a value is missing, how far a choice can be trusted, and which runs are behind a section."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from htbench.harness.choice.edge import Edge
from htbench.harness.choice.winner import grouped
from htbench.harness.paper import scales
from htbench.harness.show.note import Note, text
from htbench.harness.show.report import Cell, Section
from htbench.harness.show.status import Status
from htbench.harness.store.points import REPLICATE, SEARCH
from htbench.results.compare.edges import find_edges
from htbench.results.compare.routes import note_routes
from htbench.results.compare.select import WORKLOAD, Choice, Row, has_stages
from htbench.results.compare.summary import finite_values, metric_summary
from htbench.results.compare.untuned_settings import note_not_default
from htbench.results.frames.columns import DATA
from htbench.results.frames.from_csv import FILE
from htbench.results.frames.metrics import Metric, is_number, word
from htbench.results.frames.provenance import CAN_CHANGE, OF_A_ROW, is_told
from htbench.results.frames.rows import Rows

SPREAD = Note("spread")
NO_OUTLOOK: Mapping[str, Note] = {}

_EMBEDDED_TASKS = ("pydocs", "digits", "glyphs")
_FAILURES = ("oom", "timeout", "killed", "error")
# Columns that can't, with their names: code that makes other numbers makes other runs.
_CANNOT = (("code", "our code"), ("python", "Python"))
_MADE_BY = ("code", "torch", "python", "machine", "threads", "processes")


# --- the workload ---


def make_title(part: Rows) -> str:
    """The workload of a part of the frame: "pydocs, llama-nano (steps=100)"."""
    task, model, setting = workload_columns(part).values()
    return ", ".join(filter(None, (task, model))) + (f" ({setting})" if setting else "")


def workload_columns(part: Rows) -> dict[str, str]:
    """The workload as CSV columns."""
    first = part[0]
    return {name: str(first[name]) for name in WORKLOAD}


def note_origin(part: Rows) -> tuple[Note, ...]:
    """The footnotes on whose numbers these are, and on the protocol if it is that of the paper."""
    if file := part[0].get(FILE):
        return (Note("origin_file", file=file),)
    if not has_stages(part[0]):
        return (Note("origin_unplanned"),)
    data = "embedded data" if part[0]["task"] in _EMBEDDED_TASKS else ""
    published_way = (Note("protocol_paper"),) if part[0]["protocol"] == "paper" else ()
    return (*published_way, Note("origin_ours", data=data))


def note_missing_languages(*shown: str) -> list[Note]:
    """What is told of the scales among these that have no language model."""
    return [Note("undecidable_languages", scale=scale) for scale in shown if not scales.has_languages(scale)]


# --- cells ---


def make_validation_cell(choice: Choice, metric: Metric) -> Cell:
    """The winner's validation metric over its search seeds, or why there is none."""
    if choice.winner is None:
        return explain_missing(choice)
    runs = choice.winner.runs
    return Cell(metric_summary(runs, "val", metric), metric.digits, runs=list_keys(runs))


def list_keys(runs: Iterable[Row]) -> tuple[str, ...]:
    """The keys of those runs that exist: an empty slot has none."""
    return tuple(str(run["key"]) for run in runs if run["key"] != run["slot"])


def explain_missing(choice: Choice) -> Cell:
    """Why a group has no winner."""
    return explain([run for run in choice.runs if run["state"] == choice.state])


def explain(runs: Sequence[Row]) -> Cell:
    """The cell for runs that share a state without value: its symbol, and the reason as footnote."""
    state = Status(runs[0]["state"])
    reasons = sorted({str(run["reason"]) for run in runs} - {""})
    detail, notes = "", [text(reason) for reason in reasons]
    if state is Status.FAILED:
        detail = f" ({', '.join(reasons)})"
        failed = [(run["key"], run["reason"]) for run in runs]
        notes = [
            Note("failed_run", run=key, why=Note(f"failure_{why}") if why in _FAILURES else text(why))
            for key, why in failed
        ]
    elif state is Status.DAMAGED:
        notes = [Note("damaged_run", run=run["key"], why=run["reason"]) for run in runs]
    elif state is Status.DIVERGED:
        steps = sorted(int(run["steps"]) for run in runs if is_number(run["steps"]))
        detail = "@" + "-".join(map(str, dict.fromkeys((steps[0], steps[-1])))) if steps else ""
    return Cell(state=state, detail=detail, notes=tuple(notes), runs=list_keys(runs))


def count_by_state(runs: Iterable[Row]) -> list[Note]:
    """Numbers of runs by state: "1 running, 2 not run yet"."""
    counts = Counter(run["state"] for run in runs)
    return [Note(f"tally_{state}", count=counts[state]) for state in Status if counts[state]]


# --- how far to trust a choice ---


def note_unfinished(choice: Choice) -> tuple[Note, ...]:
    """The footnote to a choice that may still change."""
    states, total = [{"state": state} for state in choice.unfinished.elements()], len(choice.candidates)
    note = Note("not_final", done=total - len(states), total=total, rest=count_by_state(states))
    return (note,) if states else ()


def note_stale(choice: Choice) -> tuple[Note, ...]:
    """The footnotes on replicas that are not fresh."""
    return tuple(Note("stale", count=count, sweep=sweep) for sweep, count in sorted(choice.stale.items()))


def note_left_out(choice: Choice, metric: Metric) -> tuple[Note, ...]:
    """The footnote on fresh runs of the chosen settings that the store has, and the row not."""
    runs = choice.left_out
    mean = metric_summary(runs, "test", metric)
    rest = [run for run in runs if not finite_values([run], f"test_{metric.name}")]
    fields = {"mean": round(mean.mean, metric.digits) if mean else None, "rest": count_by_state(rest)}
    return (Note("fresh_left_out", count=len(runs), **fields),) if runs else ()


def note_fewer_seeds(kind: str, seeds: int, other_rows: Iterable[int]) -> tuple[Note, ...]:
    """The footnote to a value over fewer seeds than others: "chosen on 1 seed, others on 3"."""
    most = max(other_rows, default=seeds)
    return (Note(kind, seeds=seeds, most=most),) if seeds < most else ()


def count_search_seeds(choices: Iterable[Choice]) -> list[int]:
    """On how many seeds each candidate was searched."""
    return [len(candidate.runs) for choice in choices for candidate in choice.candidates]


def note_caveats(
    choice: Choice, axes: list[str], outlook: Mapping[str, Note] = NO_OUTLOOK
) -> dict[str, tuple[Note, ...]]:
    """Footnotes to a choice by column: optima at an edge; under "lr" also ties.

    Args:
        choice: one with a winner.
        axes: the columns that were searched.
        outlook: what it means that a better setting may lie beyond the edge of a column
            (`verdicts.Standing`); empty: rows are not compared.
    """
    assert choice.winner is not None
    names = [axis for axis in axes if to_plain(choice.winner.value(axis)) is not None]
    ties = [", ".join(f"{name}={word(tied.value(name))}" for name in names) for tied in choice.tied]
    notes: dict[str, tuple[Note, ...]] = {"lr": (Note("tie", others=ties),) if ties else ()}
    if not has_stages(choice.winner.runs[0]):
        return notes  # there is no grid here that could get another point
    for column, beside in find_edges(choice, axes).items():
        advice = advise_next(beside)
        where = Note("edge_of", place="grid" if beside[0].place == "grid" else "searched range")
        if any(edge.place == "hole" for edge in beside):
            where = Note("edge_hole", sides=["above" if edge.upwards else "below" for edge in beside])
        note = Note(
            "edge",
            column=column,
            value=f"{beside[0].value:g}",
            where=where,
            side="another" if len(beside) > 1 else "higher" if beside[0].upwards else "lower",
            name="" if advice and beside[0].blocks else choice.optimizer,
            following=advice,
            outlook=outlook.get(column, ""),
        )
        notes[column] = (*notes.get(column, ()), note)
    return notes


def note_choice(
    choice: Choice | None,
    axes: list[str] | None,
    fixed: Collection[str] = (),
    outlook: Mapping[str, Note] = NO_OUTLOOK,
) -> tuple[Note, ...]:
    """All footnotes to a choice, for tables that do not show its settings.

    Args:
        choice: None: nothing is planned.
        axes, outlook: as for `note_caveats`; no axes: all that a cell of the paper leaves open, but p.
        fixed: what the place of the choice fixes; it needs no footnote.
    """
    if choice is None:
        return ()
    notes = [*note_unfinished(choice), *note_stale(choice)]
    if choice.winner is not None:
        axes = axes if axes is not None else [name for name in choice.axes if name != "p"] or ["lr"]
        notes += [note for caveats in note_caveats(choice, axes, outlook).values() for note in caveats]
    return (*notes, *note_not_default(choice, {"lr", "routing", *choice.axes, *fixed}))


def advise_next(beside: Sequence[Edge]) -> Note | str:
    """What to do next, so that the file which it is about takes it; empty if no value is allowed."""
    missing = [edge for edge in beside if edge.following is not None]
    if not missing:
        return ""
    first = missing[0]
    if not first.blocks:
        return Note("edge_run", values=[f"{edge.following:g}" for edge in missing])
    if first.is_searched:
        return Note("edge_trials", trials=first.trials) if first.trials else Note("edge_goes_on")
    alike = [edge for edge in missing if edge.is_listed == first.is_listed]
    kind = "edge_widen" if first.place == "range" else "edge_listed" if first.is_listed else "edge_add"
    return Note(
        kind,
        setting=first.setting,
        side="high" if first.upwards else "low",
        values=[f"{edge.following:g}" for edge in alike],
        count=len(first.blocks),
        blocks=first.blocks,
        trials=first.trials,
        option="--replace" if first.is_drawn else "",
    )


def to_plain(value: Any) -> str | float | None:
    """A setting as a cell's value: numbers stay numbers, NaN is nothing, the rest is words."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if value != value else value
    return None if value is None else word(value)


# --- the runs behind a section ---


def complete_section(section: Section, part: Rows) -> Section:
    """The section with marks at the cells of mixed runs, and notes on all runs behind it, also in brief.

    Args:
        section: of a table.
        part: the rows of the frame that it was made of.
    """
    by_key = {str(run["key"]): run for run in part if is_told(run)}
    cells = [[_mark_cell(cell, by_key) for cell in row] for row in section.rows]
    keys = dict.fromkeys(key for row in cells for cell in row for key in cell.runs)
    routed, footer = note_routes(by_key[key] for key in keys if key in by_key)
    runs = [by_key[key] for key in sorted(keys.keys() & by_key.keys())]
    differences = _note_differences(runs, [(name, name) for name in CAN_CHANGE])
    planned = [run for run in by_key.values() if run["stage"] in (SEARCH, REPLICATE)]
    for name, row in grouped(planned, itemgetter("optimizer")).items():  # code that is not in their keys
        differences += _note_differences(row, [(OF_A_ROW, f"imports of {name}")])
    versions = _note_differences(runs, _CANNOT)
    notes = [
        *routed,
        *([Note("mixture", differences=differences)] if differences else []),
        *([Note("versions", versions=versions)] if versions else []),
    ]
    if runs:
        compiled = "compiled" if any(run.get("compile") is True for run in runs) else ""
        fields = {name: _list_values(runs, name) for name in _MADE_BY}
        data = _list_values(runs, DATA)
        stacks = sorted({*_list_values(runs, "stack")} - {"1"}, key=int)
        notes.append(Note("made_by", runs=len(runs), compiled=compiled, stacks=stacks, data=data, **fields))
    mixture = [Note("mixture_section", section=section.title, differences=differences)] if differences else []
    below, last = (*section.notes, *notes), (*section.footer, *footer)
    brief = None if section.brief is None else replace(section.brief, notes=below, footer=last)
    return replace(section, rows=cells, mixtures=tuple(mixture), notes=below, footer=last, brief=brief)


def _mark_cell(cell: Cell, by_key: Mapping[str, Row]) -> Cell:
    runs = [by_key[key] for key in cell.runs if key in by_key]
    columns = [(name, name) for name in (*CAN_CHANGE, OF_A_ROW)]
    differences = _note_differences(runs, columns) if len(runs) > 1 else []
    return cell.noted(Note("mixture_cell", differences=differences)) if differences else cell


def _note_differences(runs: Sequence[Row], columns: Iterable[tuple[str, str]]) -> list[Note]:
    """The columns in which some runs differ, each with its name."""
    values = {name: _list_values(runs, column) for column, name in columns}
    return [Note("differing", name=name, values=words) for name, words in values.items() if len(words) > 1]


def _list_values(runs: Iterable[Row], column: str) -> list[str]:
    return sorted({word(value) for value in {run.get(column) for run in runs} - {""}})  # not known
