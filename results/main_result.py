"""The main table: what each optimizer's best setting achieves on seeds and data that did not choose it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from harness.plans import SEARCH
from results import wording
from results.cells import SYMBOLS, Cell, Column, Section
from results.load import tuned_columns
from results.select import OPTIMIZER, Choice, Row, choose, searched
from results.stats import SIGNIFICANCE, Summary, best_rows
from results.units import Metric, reported

_STILL_OPEN = {"running", "waiting"}
_NO_REPLICAS = "the chosen setting has no run on a fresh seed yet: nothing to report"
_BOLD = (
    f"Bold is the best mean, once all runs are in, if Welch's test sets it apart from the runner-up "
    f"(p < {SIGNIFICANCE}) and the printed values differ."
)


def section(part: pd.DataFrame) -> Section:
    """One workload, one row per optimizer.

    Fixed: task, model, setting, optimizer. Selected over: all else that was searched.

    Args:
        part: the rows of one workload.
    """
    choices = choose(part, OPTIMIZER)
    metrics = reported(part)
    axes = searched(part, tuned_columns(part))
    tuned = [name for name in tuned_columns(part) if name in ("lr", "p") or name in axes]
    caveats = [wording.caveats(part, choice, axes) if choice.winner else {} for choice in choices]
    tests = {metric: _tests(choices, metric) for metric in metrics}
    table = [
        (Column("optimizer", "optimizer", "text"), [_name(choice) for choice in choices]),
        *((Column(name, name), _settings(choices, name, caveats)) for name in tuned),
        (Column("tried", "tried"), [Cell(len(choice.candidates)) for choice in choices]),
        *((_summary("test", metric), tests[metric]) for metric in metrics),
        (Column("", "n"), [Cell(_count(cell)) for cell in tests[metrics[0]]]),
        (_summary("val", metrics[0]), [wording.validation(choice, metrics[0]) for choice in choices]),
        (Column("val_loss_ratio", "val loss / untrained"), [_untrained_ratio(choice) for choice in choices]),
        (Column("ms_per_step", "ms/step"), [_milliseconds(choice) for choice in choices]),
    ]
    said = [(column, cells) for column, cells in table if any(cell.text() for cell in cells)]
    notes = (
        f"{_selected(axes)}; reported on test from fresh seeds (n of them).",
        *_budgets(part),
        wording.SPREAD,
        _BOLD,
        *_timing(choices),
        wording.origin(part),
    )
    columns = [column for column, _ in said]
    rows = [list(row) for row in zip(*(cells for _, cells in said), strict=True)]
    return Section(wording.title(part), wording.identity(part), columns, rows, notes=notes)


def _selected(axes: list[str]) -> str:
    if not axes:
        return "One setting per optimizer, nothing chosen"
    return f"{wording.listing(axes)} chosen on validation among the search runs (tried: number of settings)"


def _budgets(part: pd.DataFrame) -> list[str]:
    """How the settings were searched; a grid speaks for itself."""
    optimizers: dict[str, list[str]] = {}
    rows = part.loc[(part["stage"] == SEARCH) & (part["search"] != ""), ["search", "optimizer"]]
    for terms, name in rows.drop_duplicates().itertuples(index=False, name=None):
        optimizers.setdefault(terms, []).append(name)
    if len(optimizers) == 1:
        return [f"Each optimizer was searched by {terms}." for terms in optimizers]
    budgets = "; ".join(f"{wording.listing(names)} by {terms}" for terms, names in optimizers.items())
    return [f"Not searched alike: {budgets}."] if budgets else []


def _summary(split: str, metric: Metric) -> Column:
    return Column(f"{split}_{metric.column}", f"{split} {metric.label}", "summary")


def _name(choice: Choice) -> Cell:
    return Cell(str(choice.fixed["optimizer"]), notes=wording.unfinished(choice))


def _settings(
    choices: list[Choice], name: str, caveats: Sequence[Mapping[str, tuple[str, ...]]]
) -> list[Cell]:
    """The chosen values of one tuned column."""
    values = [wording.plain(choice.winner.value(name)) if choice.winner else None for choice in choices]
    return [Cell(value, notes=notes.get(name, ())) for value, notes in zip(values, caveats, strict=True)]


# --- test figures ---


def _tests(choices: list[Choice], metric: Metric) -> list[Cell]:
    """The test cells of all rows, the best one bold where that is fair."""
    found = [_test(choice, metric) for choice in choices]
    if not all(map(_is_settled, choices)):
        return found
    groups = [cell.value if isinstance(cell.value, Summary) else None for cell in found]
    bold = best_rows(groups, higher_is_better=metric.higher_is_better, digits=metric.digits)
    return [replace(cell, bold=best and not cell.notes) for cell, best in zip(found, bold, strict=True)]


def _is_settled(choice: Choice) -> bool:
    """Whether no run that is still to come can change the row."""
    if _STILL_OPEN & choice.unfinished.keys():
        return False
    replicas = {run["state"] for run in choice.replicas}
    return choice.winner is None or (bool(replicas) and not _STILL_OPEN & replicas)


def _test(choice: Choice, metric: Metric) -> Cell:
    """The winner's test figure over its fresh seeds. Search runs are never a substitute."""
    if choice.winner is None:
        return wording.missing(choice)
    if not choice.replicas:
        return Cell(state="waiting", notes=(_NO_REPLICAS,))
    rest = [run for run in choice.replicas if not wording.figures([run], f"test_{metric.name}")]
    total = len(choice.replicas)
    counts = wording.tally(Counter(run["state"] for run in rest))
    notes = (f"{total - len(rest)} of {total} replicas count; the rest: {counts}",) if rest else ()
    if len(rest) < total:
        found = wording.summary(choice.replicas, "test", metric)
        return Cell(found, metric.digits, notes=notes, runs=wording.keys(choice.replicas))
    state = min((run["state"] for run in rest), key=list(SYMBOLS).index)
    return wording.explain([run for run in rest if run["state"] == state]).noted(*notes)


def _count(cell: Cell) -> int | None:
    return cell.value.n if isinstance(cell.value, Summary) else None


# --- training and speed ---


def _untrained_ratio(choice: Choice) -> Cell:
    """The validation loss as a fraction of the untrained model's: has it learned anything?"""
    runs = choice.winner.runs if choice.winner else []
    trained, untrained = (wording.figures(runs, name) for name in ("val_loss", "untrained_val_loss"))
    if not untrained:
        return Cell()
    return Cell(statistics.fmean(trained) / statistics.fmean(untrained), digits=3)


def _timed(choice: Choice) -> list[Row]:
    """The runs of the chosen setting whose time is known."""
    runs = [*choice.winner.runs, *choice.replicas] if choice.winner else []
    return [run for run in runs if wording.figures([run], "seconds_per_step")]


def _milliseconds(choice: Choice) -> Cell:
    seconds = wording.figures(_timed(choice), "seconds_per_step")
    return Cell(statistics.median(seconds) * 1000, digits=2) if seconds else Cell()


def _timing(choices: list[Choice]) -> list[str]:
    machines = sorted({str(run["machine"]) for choice in choices for run in _timed(choice)})
    if not machines:
        return []
    caution = ": not one kind of machine, so do not compare" if len(machines) > 1 else ""
    return [f"ms/step is the median over the chosen setting's runs on {'; '.join(machines)}{caution}."]
