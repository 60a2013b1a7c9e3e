"""The tables, one named function each, from the tidy frame alone: same records and plans, same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from results import cells
from results.cells import Cell, Column, Section, Table
from results.edges import edges
from results.load import tuned_columns
from results.select import OPTIMIZER, WORKLOAD, Candidate, Choice, choose, searched
from results.stats import Summary, best_rows, summarize
from results.units import Metric, reported

EMBEDDED_TASKS = {"pydocs", "digits"}

_FAILURES = {
    "oom": "out of memory",
    "timeout": "its time limit was reached",
    "killed": "two processes in a row were killed before their first checkpoint",
    "error": "an exception, which its log.txt shows",
}
_SPREAD = "± is the sample standard deviation over seeds; a single seed (n=1) has none."
_BOLD = "Bold is the best mean if Welch's test sets it apart from the runner-up (p < 0.05), once all runs are in."


# --- the tables ------------------------------------------------------------------------------------------------------


def main_result(frame: pd.DataFrame) -> Table:
    """Per workload, each optimizer's best setting: chosen on validation, reported on test from fresh seeds."""
    sections = [_main_section(part) for part in _workloads(frame)]
    return Table("main_result", "test result of each optimizer's best setting", sections)


def lr_grid(frame: pd.DataFrame) -> Table:
    """Validation metric by optimizer and lr; everything else that is tuned (p, ...) is the best for that cell."""
    sections = [_grid_section(part, "optimizer") for part in _workloads(frame)]
    return Table("lr_grid", "validation result by optimizer and learning rate", sections)


def p_grid(frame: pd.DataFrame) -> Table:
    """Validation metric by p and lr, for each optimizer whose p was tuned."""
    parts = [part for _, part in frame.groupby(list(OPTIMIZER), sort=False)]
    tuned = [part for part in parts if "p" in part and searched(part, ["p"])]
    return Table(
        "p_grid",
        "validation result by p and learning rate",
        [_grid_section(part, "p") for part in tuned],
        empty="No block of these sweeps has two values of p.",
    )


TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    function.__name__: function for function in (main_result, lr_grid, p_grid)
}


# --- main_result -----------------------------------------------------------------------------------------------------


def _main_section(part: pd.DataFrame) -> Section:
    choices = choose(part, OPTIMIZER)
    metrics = reported(part["task"].iloc[0])
    axes = searched(part, tuned_columns(part))
    tuned = [name for name in tuned_columns(part) if name in axes or name == "lr" or (name == "p" and _has_p(part))]
    tests = _test_columns(choices, metrics)
    best = metrics[0]

    columns = [Column("optimizer", "optimizer", "text")]
    columns += [Column(name, name) for name in tuned]
    columns += [Column(f"test_{metric.column}", f"test {metric.label}", "summary") for metric in metrics]
    columns += [Column("", "n"), Column(f"val_{best.column}", f"val {best.label}", "summary")]
    columns += [Column("val_loss_ratio", "val loss / untrained"), Column("ms_per_step", "ms/step")]
    rows = [
        [
            Cell(choice.fixed["optimizer"], notes=_unfinished_note(choice)),
            *_settings(part, choice, tuned, axes),
            *(column[index] for column in tests),
            Cell(_count(tests[0][index])),
            _validation(choice, best),
            _untrained_ratio(choice),
            Cell(_milliseconds(choice), digits=2),
        ]
        for index, choice in enumerate(choices)
    ]
    columns, rows = _without_empty(columns, rows)
    over = " and ".join(filter(None, [", ".join(axes[:-1]), *axes[-1:]])) or "nothing"
    notes = (
        f"Selected over {over}: chosen on validation (search runs), reported on test from fresh seeds (n replicas).",
        _SPREAD,
        _BOLD,
        *_timing_note(choices),
        _origin(part),
    )
    return Section(_title(part), _identity(part), columns, rows, notes=notes)


def _has_p(part: pd.DataFrame) -> bool:
    return "p" in part and bool(part["p"].notna().any())


def _settings(part: pd.DataFrame, choice: Choice, tuned: list[str], axes: list[str]) -> list[Cell]:
    if choice.winner is None:
        return [Cell() for _ in tuned]
    caveats = _caveats(part, choice, axes)
    row = {name: Cell(_plain(choice.winner.value(name)), notes=tuple(caveats.get(name, ()))) for name in tuned}
    row["lr"] = row["lr"].noted(*caveats[""])
    return list(row.values())


def _test_columns(choices: list[Choice], metrics: tuple[Metric, ...]) -> list[list[Cell]]:
    """Per metric, the test cells of all rows, the best one bold where that is fair."""
    settled = all(_is_settled(choice) for choice in choices)
    columns = []
    for metric in metrics:
        column = [_test(choice, metric) for choice in choices]
        groups = [cell.value if isinstance(cell.value, Summary) else None for cell in column]
        bold = best_rows(groups, higher_is_better=metric.higher_is_better, digits=metric.digits)
        columns.append(
            [
                Cell(cell.value, cell.digits, cell.state, cell.detail, settled and is_best and not cell.notes, notes=cell.notes)
                for cell, is_best in zip(column, bold, strict=True)
            ]
        )
    return columns


def _is_settled(choice: Choice) -> bool:
    """Whether no run that is still to come can change the row."""
    open_states = {"running", "waiting"}
    if open_states & choice.unfinished.keys():
        return False
    return choice.winner is None or (len(choice.replicas) > 0 and not open_states & set(choice.replicas["state"]))


def _test(choice: Choice, metric: Metric) -> Cell:
    """The winner's test figure over its fresh seeds. Search runs are never a substitute."""
    if choice.winner is None:
        return _missing(choice)
    replicas = choice.replicas
    if replicas.empty:
        return Cell(state="waiting", notes=("the chosen setting has no run on a fresh seed yet: nothing to report",))
    values = _values(replicas, f"test_{metric.name}")
    rest = replicas.drop(values.index)
    note = (f"{len(values)} of {len(replicas)} replicas count: {_tally(rest['state'])}",) if len(rest) else ()
    if values.empty:
        state = min(rest["state"], key=list(cells.SYMBOLS).index)
        return _explain(rest[rest["state"] == state]).noted(*note)
    return Cell(summarize(list(values * metric.scale)), metric.digits, notes=note)


def _count(cell: Cell) -> float | None:
    return cell.value.n if isinstance(cell.value, Summary) else None


def _untrained_ratio(choice: Choice) -> Cell:
    if choice.winner is None or "untrained_val_loss" not in choice.winner.runs:
        return Cell()
    ratios = (choice.winner.runs["val_loss"] / choice.winner.runs["untrained_val_loss"]).dropna()
    return Cell(float(ratios.mean()), digits=3) if len(ratios) else Cell()


def _timed(choice: Choice) -> pd.DataFrame:
    """The runs of the winner whose time is known."""
    if choice.winner is None or "seconds_per_step" not in choice.replicas:
        return choice.replicas.iloc[:0]
    runs = pd.concat([choice.winner.runs, choice.replicas])
    return runs[runs["seconds_per_step"].notna()]


def _milliseconds(choice: Choice) -> float | None:
    runs = _timed(choice)
    return None if runs.empty else float(runs["seconds_per_step"].median()) * 1000


def _timing_note(choices: list[Choice]) -> list[str]:
    machines = sorted({str(name) for choice in choices for name in _timed(choice).get("machine", ())})
    if not machines:
        return []
    caution = "; not one kind of machine, so do not compare" if len(machines) > 1 else ""
    return [f"ms/step is the median over the chosen setting's runs, on {'; '.join(machines)}{caution}."]


def _without_empty(columns: list[Column], rows: list[list[Cell]]) -> tuple[list[Column], list[list[Cell]]]:
    """Drop columns that say nothing in any row."""
    kept = [i for i in range(len(columns)) if any(row[i] != Cell(digits=row[i].digits) for row in rows)]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


# --- the grids -------------------------------------------------------------------------------------------------------


def _grid_section(part: pd.DataFrame, row_axis: str) -> Section:
    """Rows by `row_axis`, columns by lr, each cell the best candidate that has both."""
    metric = reported(part["task"].iloc[0])[0]
    axes = searched(part, tuned_columns(part))
    overall = {choice.winner.name: choice for choice in choose(part, OPTIMIZER) if choice.winner is not None}
    known = part[part["lr"].notna() & part[row_axis].notna()]
    grid = {
        (choice.fixed[row_axis], choice.fixed["lr"]): choice
        for choice in choose(known, dict.fromkeys([*OPTIMIZER, row_axis, "lr"]))
    }
    heads = list(dict.fromkeys(row for row, _ in grid))
    heads = heads if row_axis == "optimizer" else sorted(heads)
    rates = sorted({lr for _, lr in grid})

    columns = [Column(row_axis, row_axis, "text" if row_axis == "optimizer" else "number")]
    columns += [Column(f"val_{metric.column}", f"lr {lr:g}", "summary", across=lr) for lr in rates]
    rows = [
        [Cell(head), *(_grid_cell(part, grid.get((head, lr)), overall, metric, axes) for lr in rates)] for head in heads
    ]
    others = [name for name in axes if name not in (row_axis, "lr")]
    best = f", each with its best {' and '.join(others)}" if others else ""
    seeds = sorted({len(candidate.runs) for choice in grid.values() for candidate in choice.candidates})
    notes = (
        f"Validation {metric.label} of the search runs{best}; n={'-'.join(map(str, seeds))} seed per cell.",
        *((_SPREAD,) if seeds[-1] > 1 else ()),
        "An empty cell is not in the plan.",
        _origin(part),
    )
    title = _title(part) + (f": {part['optimizer'].iloc[0]}" if row_axis == "p" else "")
    identity = _identity(part) | ({"optimizer": part["optimizer"].iloc[0]} if row_axis == "p" else {})
    return Section(title, identity, columns, rows, axis="lr", notes=notes)


def _grid_cell(
    part: pd.DataFrame, choice: Choice | None, overall: dict[str, Choice], metric: Metric, axes: list[str]
) -> Cell:
    if choice is None:
        return Cell()
    if choice.winner is None:
        return _missing(choice)
    cell = _validation(choice, metric).noted(*_unfinished_note(choice))
    main = overall.get(choice.winner.name)
    if main is None:
        return cell
    notes = [note for group in _caveats(part, main, axes).values() for note in group]
    return Cell(cell.value, cell.digits, chosen=True, notes=(*cell.notes, *notes))


# --- cells -----------------------------------------------------------------------------------------------------------


def _validation(choice: Choice, metric: Metric) -> Cell:
    """The winner's validation figure over its search seeds."""
    if choice.winner is None:
        return _missing(choice)
    return Cell(summarize(list(_values(choice.winner.runs, f"val_{metric.name}") * metric.scale)), metric.digits)


def _missing(choice: Choice) -> Cell:
    """Why a group has no winner."""
    runs = pd.concat([candidate.runs for candidate in choice.candidates])
    return _explain(runs[runs["state"] == choice.state])


def _explain(runs: pd.DataFrame) -> Cell:
    """The symbol for rows that share a state without figure, and a footnote with the reason."""
    state = runs["state"].iloc[0]
    reasons = sorted({str(reason) for reason in runs["reason"]} - {""})
    if state == "failed":
        notes = tuple(f"run {key}: {_FAILURES.get(why, why)}" for key, why in zip(runs["key"], runs["reason"], strict=True))
        return Cell(state=state, detail=f" ({', '.join(reasons)})", notes=notes)
    if state == "diverged":
        steps = sorted({int(step) for step in runs["steps"]})
        notes = tuple(sorted({reason.rpartition(" at step ")[0] or reason for reason in reasons}))
        return Cell(state=state, detail="@" + "-".join(map(str, dict.fromkeys([steps[0], steps[-1]]))), notes=notes)
    return Cell(state=state, notes=tuple(reasons))


def _unfinished_note(choice: Choice) -> tuple[str, ...]:
    if not choice.unfinished:
        return ()
    total = len(choice.candidates)
    done = total - choice.unfinished.total()
    return (f"the choice is not final: {done} of {total} settings are finished, {_words(choice.unfinished)}",)


def _caveats(part: pd.DataFrame, choice: Choice, axes: list[str]) -> dict[str, list[str]]:
    """Footnotes to a choice by column: optima at the edge of the grid; under "", settings as good as the chosen."""
    assert choice.winner is not None
    notes: dict[str, list[str]] = {"": [_tie_note(choice.winner, choice.tied, axes)] if choice.tied else []}
    for edge in edges(part, choice.winner, axes):
        more = f"; to go on: `{edge.hint}`" if edge.hint else ""
        notes[edge.column] = [f"{edge.column}={edge.value:g} is at the edge of its grid{more}"]
    return notes


def _tie_note(chosen: Candidate, tied: list[Candidate], axes: list[str]) -> str:
    names = [axis for axis in axes if pd.notna(chosen.value(axis)) is not False]
    others = "; ".join(", ".join(f"{name}={_word(one.value(name))}" for name in names) for one in tied)
    return f"a tie: {others} has the same validation metric, the validation loss decided"


# --- words -----------------------------------------------------------------------------------------------------------


def _workloads(frame: pd.DataFrame) -> Iterable[pd.DataFrame]:
    return (part for _, part in frame.groupby(list(WORKLOAD), sort=False))


def _title(part: pd.DataFrame) -> str:
    task, model, setting = part[list(WORKLOAD)].iloc[0]
    return f"{task}, {model}" + (f" ({setting})" if setting else "")


def _identity(part: pd.DataFrame) -> dict[str, str]:
    return {name: part[name].iloc[0] for name in WORKLOAD}


def _origin(part: pd.DataFrame) -> str:
    embedded = part["task"].iloc[0] in EMBEDDED_TASKS
    return f"Ours{', embedded data' if embedded else ''}, not the paper's numbers."


def _values(runs: pd.DataFrame, column: str) -> pd.Series[float]:
    completed = runs[runs["state"] == "completed"]
    return completed[column].dropna().astype(float) if column in runs else pd.Series(dtype=float)


def _tally(states: pd.Series[Any]) -> str:
    return _words(states.value_counts(sort=False).to_dict())


def _words(counts: dict[str, int]) -> str:
    names = {"waiting": "not run yet", "completed": "without a finite figure"}
    return ", ".join(f"{counts[state]} {names.get(state, state)}" for state in cells.SYMBOLS if counts.get(state))


def _plain(value: Any) -> str | float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if pd.isna(value) else value
    return None if value is None else _word(value)


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
