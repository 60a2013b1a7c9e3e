"""The main table: what each optimizer's best setting achieves on seeds and data that did not choose it."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import listing
from htbench.harness.show.report import Cell, Column, Section
from htbench.harness.show.status import Status
from htbench.harness.store.points import DROPPED, SEARCH
from htbench.results.compare import unlike_searches
from htbench.results.compare.contender import list_setting_values
from htbench.results.compare.select import Choice
from htbench.results.compare.summary import finite_values
from htbench.results.compare.workloads import expected_best
from htbench.results.frames.metrics import Metric
from htbench.results.frames.rows import Frame, rows
from htbench.results.tables import footnotes
from htbench.results.tables.outcome import Outcome
from htbench.results.tables.verdicts import RULES

Term = TypeVar("Term", bound=Hashable)


def make_section(outcome: Outcome) -> Section:
    """What is known of one workload, one row per optimizer."""
    part, choices = outcome.part, outcome.choices
    # a column without any text is left out
    filled = [
        (column, cells) for column, cells in _make_columns(outcome) if any(cell.text() for cell in cells)
    ]
    timed = any(column.name == "ms_per_step" for column, _ in filled)
    verdict, judged = outcome.verdict, outcome.staged or outcome.file
    notes = (
        _note_choices(outcome),
        *_note_budgets(choices, outcome.names),
        *outcome.fixed,
        *_note_searches(part),
        *unlike_searches.note_unlike_searches(choices, outcome.names),
        footnotes.SPREAD,
        *((RULES if verdict is None else verdict.notes(outcome.open)) if judged else ()),
        *([Note("time_step")] if timed else []),
        *footnotes.note_origin(part),
    )
    lines = [list(line) for line in zip(*(cells for _, cells in filled), strict=True)]
    columns = [column for column, _ in filled]
    return footnotes.complete_section(
        Section(footnotes.make_title(part), footnotes.workload_columns(part), columns, lines, notes=notes),
        part,
    )


def _note_choices(outcome: Outcome) -> Note:
    """How settings were chosen. Of runs without stages, what chose a setting is reported, too."""
    alone = all(
        (choice.tried if outcome.staged else len(choice.candidates)) == 1 for choice in outcome.choices
    )
    if alone:
        return Note("one_setting" if outcome.staged and not outcome.file else "one_setting_here")
    if not outcome.staged:
        return Note("chosen_here", axes=outcome.axes or ["The setting"])
    return Note("chosen_search" if outcome.file else "chosen_validation", axes=outcome.axes)


# --- the columns ---


def _make_columns(outcome: Outcome) -> list[tuple[Column, list[Cell]]]:
    """Every column with its cells, one per choice."""
    choices, first, verdict = outcome.choices, outcome.metric, outcome.verdict
    budgets = verdict.budgets if verdict else [()] * len(choices)
    ended = [run for run in rows(outcome.part) if run["state"] == Status.COMPLETED]
    gone = _note_dropped_rows(outcome)
    once = bool(outcome.file) and all(run[f"val_{first.name}"] == run[f"test_{first.name}"] for run in ended)
    return [
        (
            Column("optimizer", kind="text"),
            [
                Cell(name, notes=(*footnotes.note_unfinished(choice), *notes))
                for name, choice, notes in zip(outcome.names, choices, outcome.not_default, strict=True)
            ],
        ),
        *(
            (
                Column(name),
                [
                    Cell(settings[name], notes=notes.get(name, ()))
                    for settings, notes in zip(outcome.settings, outcome.caveats, strict=True)
                ],
            )
            for name in outcome.shown
        ),
        (
            Column("tried"),
            [
                Cell(
                    choice.tried,
                    notes=(*_note_elsewhere(choice), *footnotes.note_left_out(choice, first), *gone, *notes),
                )
                for choice, notes in zip(choices, budgets, strict=True)
            ],
        ),
        *((make_summary_column(metric, outcome.split), tests) for metric, tests in outcome.tests.items()),
        (Column("", "n"), _make_seed_cells(choices, outcome.tests[first])),
        *(verdict.columns() if verdict else []),
        *_make_budget_columns(choices, first),
        (make_summary_column(first, "val"), [] if once else _make_validation_cells(choices, first)),
        (Column("val_loss_ratio", "val loss / untrained"), list(map(_make_ratio_cell, choices))),
        (Column("ms_per_step", "ms/step", "summary"), outcome.times),
    ]


def _make_budget_columns(choices: Sequence[Choice], metric: Metric) -> list[tuple[Column, list[Cell]]]:
    """The best validation result to expect of 3, 10 and 30 settings, where some row has more than that."""
    levels = [list_setting_values(choice, metric) for choice in choices]
    return [
        (
            Column(f"val_best_of_{k}", f"best of {k}", importance=1),
            [
                Cell(
                    metric.printed(expected_best(values, k, higher_is_better=metric.higher_is_better).mean),
                    metric.digits,
                )
                if len(values) >= k and sum(map(math.isfinite, values)) > len(values) - k
                else Cell()
                for values in levels
            ],
        )
        for k in (3, 10, 30)
        if max(map(len, levels)) > k
    ]


def make_summary_column(metric: Metric, split: str) -> Column:
    """The column of a metric over seeds; an empty split is not named."""
    name, label = (filter(None, (split, word)) for word in (metric.column, metric.label))
    return Column("_".join(name), " ".join(label), "summary", bounds=metric.bounds)


def _make_seed_cells(choices: Sequence[Choice], tests: Sequence[Cell]) -> list[Cell]:
    """The fresh seeds behind each test metric: how many, with a footnote if others have more."""
    seeds = [cell.spread.n if cell.spread else None for cell in tests]
    numbers = [n for n in seeds if n is not None]
    return [
        Cell()
        if n is None
        else Cell(
            n,
            notes=(*footnotes.note_stale(choice), *footnotes.note_fewer_seeds("fewer_reported", n, numbers)),
        )
        for choice, n in zip(choices, seeds, strict=True)
    ]


def _make_validation_cells(choices: Sequence[Choice], metric: Metric) -> list[Cell]:
    """The winners' validation metrics, with a footnote where fewer seeds chose than in other rows."""
    seeds = footnotes.count_search_seeds(choices)
    few = [
        footnotes.note_fewer_seeds("fewer_chosen", len(choice.winner.runs), seeds) if choice.winner else ()
        for choice in choices
    ]
    return [
        footnotes.make_validation_cell(choice, metric).noted(*notes)
        for choice, notes in zip(choices, few, strict=True)
    ]


def _make_ratio_cell(choice: Choice) -> Cell:
    """The validation loss as a fraction of the untrained model's: has it learned anything?"""
    runs = choice.winner.runs if choice.winner else []
    trained, untrained = (finite_values(runs, name) for name in ("val_loss", "untrained_val_loss"))
    if not untrained:
        return Cell()
    return Cell(statistics.fmean(trained) / statistics.fmean(untrained), digits=3)


# --- budgets: more trials make a better best one likelier ---


def _note_budgets(choices: Sequence[Choice], names: Sequence[str]) -> list[Note]:
    """How many settings of each optimizer were tried."""
    groups = sorted(_group_names(lambda at: choices[at].tried, names).items(), reverse=True)
    dropped = [
        Note("budget_of", settings=choice.dropped, name=name)
        for choice, name in zip(choices, names, strict=True)
        if choice.dropped
    ]
    notes = [Note("budget_dropped", dropped=dropped)] if dropped else []
    if len(groups) == 1 and groups[0][0] > 1:
        return [Note("alike", most=groups[0][0]), *notes]
    if len(groups) < 2:
        return notes
    if len({choice.budget for choice in choices}) == 1:
        counts = [Note("budget_count", settings=tried, names=names) for tried, names in groups]
        return [Note("budget_allowed", most=choices[0].budget, counts=counts), *notes]
    if any(choice.elsewhere for choice in choices):  # then a row was chosen among fewer
        counts = [Note("budget_count", settings=tried, names=names) for tried, names in groups]
        return [Note("budget_tried", counts=counts), *notes]
    (most, best_tried), *fewer = groups
    rest = [Note("budget_rest", names=names, settings=tried) for tried, names in fewer]
    return [Note("budget", names=best_tried, count=len(best_tried), most=most, rest=rest), *notes]


def _note_dropped_rows(outcome: Outcome) -> list[Note]:
    """The optimizers that have results of the sweep, but no row any more."""
    counts = Counter(str(run["optimizer"]) for run in rows(outcome.part) if run["stage"] == DROPPED)
    gone = sorted(counts.keys() - set(outcome.names))
    return [Note("row_dropped", name=name, runs=counts[name]) for name in gone]


def _note_elsewhere(choice: Choice) -> tuple[Note, ...]:
    """The footnote to a row that was chosen among fewer settings than were tried for it."""
    count = choice.tried - choice.elsewhere
    return (Note("tried_elsewhere", count=count, tried=choice.tried),) if choice.elsewhere else ()


def _note_searches(part: Frame) -> list[Note]:
    """How studies searched. Grids say it all by their size, except beside a search."""
    pairs = dict.fromkeys((run["optimizer"], run["search"]) for run in rows(part) if run["stage"] == SEARCH)
    if not any(search for _, search in pairs):
        return []
    by_name = grouped(pairs, lambda pair: str(pair[0]))
    terms = [listing([search or "a grid" for _, search in searches]) for searches in by_name.values()]
    groups = _group_names(lambda at: terms[at], list(by_name))
    if len(groups) == 1:
        return [Note("searched", how=terms[0])]
    notes = [Note("searched_by", names=names, how=how) for how, names in groups.items()]
    return [Note("searched_unlike", searches=notes)]


def _group_names(term: Callable[[int], Term], names: Sequence[str]) -> dict[Term, list[str]]:
    """The names of each term, in their order."""
    return {key: [names[at] for at in places] for key, places in grouped(range(len(names)), term).items()}
