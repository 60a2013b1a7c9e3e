"""The main table: what each optimizer's best setting achieves on seeds and data that did not choose it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from results.compare.select import OPTIMIZER, UNFINISHED, Candidate, Choice, choose, has_stages, searched
from results.compare.stats import Summary
from results.compare.summary import finite_values, metric_summary, sample_by_seed
from results.formats.cells import SYMBOLS, Cell, Column, Section
from results.frames import imported, schedules
from results.frames.load import tuned_columns
from results.frames.metrics import Metric, reported
from results.frames.rows import rows
from results.tables import footnotes, timing
from results.tables.annotate import RULES, Annotated, annotate
from results.tables.budgets import budgets

_REPORTED = "reported on test from fresh seeds (n of them)."
_NO_REPLICAS = "the chosen setting has no run on a fresh seed yet: nothing to report"


def section(part: pd.DataFrame) -> Section:
    """One workload, one row per optimizer.

    Fixed: task, model, setting, optimizer. Selected over: all else that was searched.

    Args:
        part: the rows of one workload.
    """
    choices = choose(part, OPTIMIZER)
    axes = searched(part, tuned_columns(part))
    verdicts = _verdicts(part, choices)
    table = _table(part, choices, axes, verdicts)
    # a column without any text is left out
    shown = [(column, cells) for column, cells in table if any(cell.text() for cell in cells)]
    columns = [column for column, _ in shown]
    lines = [list(row) for row in zip(*(cells for _, cells in shown), strict=True)]
    staged, others = has_stages(rows(part)[0]), bool(imported.source(part))
    timed = timing.NOTE_IMPORTED if others else timing.NOTE
    notes = (
        f"{_selected(choices, axes)}; {_REPORTED}" if staged else _told(choices, axes),
        *budgets(part, choices),
        footnotes.SPREAD,
        *(_statistics(verdicts) if staged or others else ()),
        *((timed,) if any(column.name == "ms_per_step" for column in columns) else ()),
        *footnotes.origin(part),
    )
    return Section(footnotes.title(part), footnotes.identity(part), columns, lines, notes=notes)


def _verdicts(part: pd.DataFrame, choices: list[Choice]) -> dict[Metric, Annotated | None]:
    """What the statistics say of each metric; None while a run may change it, or if it can't be fair."""
    fair = all(map(_is_settled, choices)) and not footnotes.chosen_on_test(part)
    if not has_stages(rows(part)[0]):  # what chose a setting is reported, too
        fair = fair and bool(imported.source(part)) and all(len(choice.candidates) == 1 for choice in choices)
    return {metric: _compared(choices, metric) if fair else None for metric in reported(part)}


def _compared(choices: list[Choice], metric: Metric) -> Annotated:
    return annotate(
        [sample_by_seed(choice.replicas, metric) for choice in choices],
        names=[str(choice.fixed["optimizer"]) for choice in choices],
        higher_is_better=metric.higher_is_better,
        digits=metric.digits,
        budgets=[choice.tried for choice in choices],
    )


def _statistics(verdicts: Mapping[Metric, Annotated | None]) -> tuple[str, ...]:
    """The sentences under the table: the ties in the first metric, and the rules."""
    first = next(iter(verdicts.values()))
    return RULES if first is None else (*first.sentences, *RULES, *first.explanations)


def _table(
    part: pd.DataFrame, choices: list[Choice], axes: list[str], verdicts: Mapping[Metric, Annotated | None]
) -> list[tuple[Column, list[Cell]]]:
    """Every column with its cells, one per choice."""
    metrics = list(verdicts)
    verdict = verdicts[metrics[0]]
    scheduled = {name for choice in choices for name in schedules.of(choice.winner)}
    shown = {"lr", "p", *axes, *scheduled}
    tuned = [name for name in tuned_columns(part) if name in shown]
    caveats = [footnotes.caveats(part, choice, axes, choices) if choice.winner else {} for choice in choices]
    tests = {metric: _tests(choices, metric, verdicts[metric]) for metric in metrics}
    ended = [run for run in rows(part) if run["state"] == "completed"]
    once = bool(imported.source(part)) and imported.has_one_split(ended, metrics[0].name)
    return [
        (Column("optimizer", "optimizer", "text"), [_name(choice) for choice in choices]),
        *((Column(name, name), _settings(choices, name, caveats)) for name in tuned),
        (Column("tried", "tried"), _tried(choices, verdict)),
        *((_summary("test", metric), tests[metric]) for metric in metrics),
        (Column("", "n"), _counts(choices, tests[metrics[0]])),
        (Column("ties", "ties", "text"), [Cell(group) for group in verdict.groups] if verdict else []),
        (Column("p_best", "P(best)"), [Cell(chance, 2) for chance in verdict.chances] if verdict else []),
        (_summary("val", metrics[0]), [] if once else _validations(choices, metrics[0])),
        (Column("val_loss_ratio", "val loss / untrained"), [_untrained_ratio(choice) for choice in choices]),
        (Column("ms_per_step", "ms/step", "summary"), timing.cells(choices)),
    ]


def _selected(choices: list[Choice], axes: list[str]) -> str:
    if all(choice.tried == 1 for choice in choices):
        return "One setting per optimizer, nothing chosen"
    return f"{footnotes.listing(axes)} chosen on validation among the search runs (tried: number of settings)"


def _told(choices: list[Choice], axes: list[str]) -> str:
    """How runs without stages are shown: what chose a setting is reported, too."""
    if all(len(choice.candidates) == 1 for choice in choices):
        return "One setting per row, nothing chosen here; n is the number of runs."
    return (
        f"{footnotes.listing(axes) or 'The setting'} chosen among all runs, and reported on the same runs: a "
        f"row gains from every further setting, so nothing is bold; n is the number of runs."
    )


def _summary(split: str, metric: Metric) -> Column:
    return Column(f"{split}_{metric.column}", f"{split} {metric.label}", "summary")


def _name(choice: Choice) -> Cell:
    return Cell(str(choice.fixed["optimizer"]), notes=footnotes.unfinished(choice))


def _settings(
    choices: list[Choice], name: str, caveats: Sequence[Mapping[str, tuple[str, ...]]]
) -> list[Cell]:
    """The chosen values of one tuned column, or how they change over the run."""
    winners = [choice.winner for choice in choices]
    values = [schedules.of(one).get(name) or _value(one, name) for one in winners]
    return [Cell(value, notes=notes.get(name, ())) for value, notes in zip(values, caveats, strict=True)]


def _value(winner: Candidate | None, name: str) -> str | float | None:
    return None if winner is None else footnotes.plain(winner.value(name))


def _tried(choices: list[Choice], verdict: Annotated | None) -> list[Cell]:
    notes = verdict.notes if verdict else [()] * len(choices)
    return [Cell(choice.tried, notes=own) for choice, own in zip(choices, notes, strict=True)]


# --- test metrics ---


def _tests(choices: list[Choice], metric: Metric, verdict: Annotated | None) -> list[Cell]:
    """The test cells of all rows, the best one bold if the statistics allow it."""
    found = [_test(choice, metric) for choice in choices]
    if verdict is None:
        return found
    return [
        replace(cell, bold=best and not cell.notes) for cell, best in zip(found, verdict.bold, strict=True)
    ]


def _is_settled(choice: Choice) -> bool:
    """Whether no run that is still to come, or to be tried again, can change the row."""
    if choice.unfinished:
        return False
    replicas = {run["state"] for run in choice.replicas}
    return choice.winner is None or (bool(replicas) and replicas.isdisjoint(UNFINISHED))


def _test(choice: Choice, metric: Metric) -> Cell:
    """The winner's test metric over its fresh seeds. Search runs never replace them."""
    if choice.winner is None:
        return footnotes.missing(choice)
    if not choice.replicas:
        return Cell(state="waiting", notes=(_NO_REPLICAS, *footnotes.stale(choice)))
    rest = [run for run in choice.replicas if not finite_values([run], f"test_{metric.name}")]
    total = len(choice.replicas)
    counts = footnotes.tally(Counter(run["state"] for run in rest))
    notes = (f"{total - len(rest)} of {total} replicas count; the rest: {counts}",) if rest else ()
    if len(rest) < total:
        found = metric_summary(choice.replicas, "test", metric)
        return Cell(found, metric.digits, notes=notes, runs=footnotes.keys(choice.replicas))
    state = min((run["state"] for run in rest), key=list(SYMBOLS).index)
    return footnotes.explain([run for run in rest if run["state"] == state]).noted(*notes)


def _counts(choices: list[Choice], tests: list[Cell]) -> list[Cell]:
    """The fresh seeds behind each test metric: how many, with a footnote if others have more."""
    found = [cell.value.n if isinstance(cell.value, Summary) else None for cell in tests]
    known = [n for n in found if n is not None]
    return [
        Cell()
        if n is None
        else Cell(n, notes=(*footnotes.stale(choice), *footnotes.fewer("reported on", n, known)))
        for choice, n in zip(choices, found, strict=True)
    ]


def _validations(choices: list[Choice], metric: Metric) -> list[Cell]:
    """The winners' validation metrics, with a footnote where fewer seeds chose than in other rows."""
    seeds = footnotes.seeds_of_search(choices)
    return [
        footnotes.validation(choice, metric).noted(
            *footnotes.fewer("chosen on", len(choice.winner.runs), seeds)
        )
        if choice.winner
        else footnotes.missing(choice)
        for choice in choices
    ]


# --- training ---


def _untrained_ratio(choice: Choice) -> Cell:
    """The validation loss as a fraction of the untrained model's: has it learned anything?"""
    runs = choice.winner.runs if choice.winner else []
    trained, untrained = (finite_values(runs, name) for name in ("val_loss", "untrained_val_loss"))
    if not untrained:
        return Cell()
    return Cell(statistics.fmean(trained) / statistics.fmean(untrained), digits=3)
