"""The main table: what each optimizer's best setting achieves on seeds and data that did not choose it."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import listing
from htbench.harness.show.report import Cell, Column, Section, by_columns
from htbench.harness.show.status import Status
from htbench.harness.store.points import DROPPED, SEARCH
from htbench.results.compare.contender import list_setting_values
from htbench.results.compare.select import Choice
from htbench.results.compare.summary import finite_values
from htbench.results.compare.unlike_searches import note_unlike_searches
from htbench.results.compare.workloads import expected_best
from htbench.results.frames.metrics import Metric
from htbench.results.frames.rows import Frame, rows
from htbench.results.tables import footnotes
from htbench.results.tables.outcome import Outcome
from htbench.results.tables.verdicts import RULES


def make_section(outcome: Outcome) -> Section:
    """The table of one workload, one row per optimizer."""
    part, choices = outcome.part, outcome.choices
    verdict, judged = outcome.verdict, outcome.staged or outcome.file
    counts = [choice.tried if outcome.staged else len(choice.candidates) for choice in choices]
    if set(counts) == {1}:
        chosen = Note("one_setting" if outcome.staged and not outcome.file else "one_setting_here")
    elif not outcome.staged:  # what chose a setting is reported, too
        chosen = Note("chosen_here", axes=outcome.axes or ["The setting"])
    else:
        chosen = Note("chosen_search" if outcome.file else "chosen_validation", axes=outcome.axes)
    notes = (
        chosen,
        *_note_budgets(choices, outcome.names),
        *outcome.fixed,
        *_note_searches(part),
        *note_unlike_searches(choices, outcome.names),
        footnotes.SPREAD,
        *((RULES if verdict is None else verdict.notes(outcome.open)) if judged else ()),
        *([Note("time_step")] if any(cell.text() for cell in outcome.times) else []),
        *footnotes.note_origin(part),
    )
    filled = {column: cells for column, cells in _list_columns(outcome) if any(cell.text() for cell in cells)}
    title, identity = footnotes.make_title(part), footnotes.workload_columns(part)
    return footnotes.complete_section(by_columns(filled, title=title, notes=notes, identity=identity), part)


# --- the columns ---


def _list_columns(outcome: Outcome) -> Iterator[tuple[Column, list[Cell]]]:
    """Every column with its cells, one per choice."""
    choices, metric, verdict = outcome.choices, outcome.metric, outcome.verdict
    rows_of_names = zip(outcome.names, choices, outcome.not_default, strict=True)
    names = [
        Cell(name, notes=(*footnotes.note_unfinished(choice), *notes))
        for name, choice, notes in rows_of_names
    ]
    yield Column("optimizer", kind="text"), names
    for name in outcome.shown:
        pairs = zip(outcome.settings, outcome.caveats, strict=True)
        yield Column(name), [Cell(settings[name], notes=notes.get(name, ())) for settings, notes in pairs]
    yield Column("tried"), _make_budget_cells(outcome)
    yield from ((make_summary_column(each, outcome.split), tests) for each, tests in outcome.tests.items())
    yield Column("", "n"), _make_seed_cells(choices, outcome.tests[metric])
    yield from verdict.columns() if verdict else []
    levels = [list_setting_values(choice, metric) for choice in choices]
    for k in (3, 10, 30):  # settings, where some row has more than that
        if max(map(len, levels)) > k:
            column = Column(f"val_best_of_{k}", f"best of {k}", importance=1)
            yield column, [_make_expected_cell(values, k, metric) for values in levels]
    ended = [run for run in rows(outcome.part) if run["state"] == Status.COMPLETED]
    if not outcome.file or any(run[f"val_{metric.name}"] != run[f"test_{metric.name}"] for run in ended):
        yield make_summary_column(metric, "val"), _make_validation_cells(choices, metric)
    yield Column("val_loss_ratio", "val loss / untrained"), list(map(_make_ratio_cell, choices))
    yield Column("ms_per_step", "ms/step", "summary"), outcome.times


def _make_budget_cells(outcome: Outcome) -> list[Cell]:
    """How many settings of each row were tried, with footnotes on what the row and the table leave out."""
    choices, verdict = outcome.choices, outcome.verdict
    runs = Counter(str(run["optimizer"]) for run in rows(outcome.part) if run["stage"] == DROPPED)
    without_row = sorted(runs.keys() - set(outcome.names))
    dropped = [Note("row_dropped", name=name, runs=runs[name]) for name in without_row]
    cells = []
    for choice, budget in zip(choices, verdict.budgets if verdict else [()] * len(choices), strict=True):
        notes = [*footnotes.note_left_out(choice, outcome.metric), *dropped, *budget]
        if choice.elsewhere:  # the row was chosen among fewer settings than were tried for it
            count = choice.tried - choice.elsewhere
            notes.insert(0, Note("tried_elsewhere", count=count, tried=choice.tried))
        cells.append(Cell(choice.tried, notes=tuple(notes)))
    return cells


def _make_expected_cell(values: Sequence[float], k: int, metric: Metric) -> Cell:
    """The best validation result to expect of k settings; empty if all of them may have no result."""
    if len(values) < k or sum(map(math.isfinite, values)) <= len(values) - k:
        return Cell()
    best = expected_best(values, k, higher_is_better=metric.higher_is_better)
    return Cell(metric.printed(best.mean), metric.digits)


def make_summary_column(metric: Metric, split: str) -> Column:
    """The column of a metric over seeds; an empty split is not named."""
    name, label = (filter(None, (split, word)) for word in (metric.column, metric.label))
    return Column("_".join(name), " ".join(label), "summary", bounds=metric.bounds)


def _make_seed_cells(choices: Sequence[Choice], tests: Sequence[Cell]) -> list[Cell]:
    """The fresh seeds behind each test metric: how many, with a footnote if others have more."""
    seeds = [cell.spread.n if cell.spread else 0 for cell in tests]
    return [
        Cell(
            n, notes=(*footnotes.note_stale(choice), *footnotes.note_fewer_seeds("fewer_reported", n, seeds))
        )
        if n
        else Cell()
        for choice, n in zip(choices, seeds, strict=True)
    ]


def _make_validation_cells(choices: Sequence[Choice], metric: Metric) -> list[Cell]:
    """The winners' validation metrics, with a footnote where fewer seeds chose than in other rows."""
    seeds, cells = footnotes.count_search_seeds(choices), []
    for choice in choices:
        count = len(choice.winner.runs) if choice.winner else max(seeds)
        few = footnotes.note_fewer_seeds("fewer_chosen", count, seeds)
        cells.append(footnotes.make_validation_cell(choice, metric).noted(*few))
    return cells


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
    pairs = list(zip(choices, names, strict=True))
    dropped = [
        Note("budget_of", settings=choice.dropped, name=name) for choice, name in pairs if choice.dropped
    ]
    notes = [Note("budget_dropped", dropped=dropped)] if dropped else []
    by_count = sorted(grouped(pairs, lambda pair: pair[0].tried).items(), reverse=True)
    groups = [(tried, [name for _, name in rows]) for tried, rows in by_count]
    if len(groups) == 1 and groups[0][0] > 1:
        return [Note("alike", most=groups[0][0]), *notes]
    if len(groups) < 2:
        return notes
    counts = [Note("budget_count", settings=tried, names=rows) for tried, rows in groups]
    if len({choice.budget for choice in choices}) == 1:
        return [Note("budget_allowed", most=choices[0].budget, counts=counts), *notes]
    if any(choice.elsewhere for choice in choices):  # then a row was chosen among fewer
        return [Note("budget_tried", counts=counts), *notes]
    (most, best_tried), *fewer = groups
    rest = [Note("budget_rest", names=rows, settings=tried) for tried, rows in fewer]
    return [Note("budget", names=best_tried, count=len(best_tried), most=most, rest=rest), *notes]


def _note_searches(part: Frame) -> list[Note]:
    """How studies searched. Grids say it all by their size, except beside a search."""
    pairs = dict.fromkeys((run["optimizer"], run["search"]) for run in rows(part) if run["stage"] == SEARCH)
    if not any(search for _, search in pairs):
        return []
    names: dict[str, list[str]] = {}  # by the words for their searches
    for name, searches in grouped(pairs, lambda pair: str(pair[0])).items():
        names.setdefault(listing([search or "a grid" for _, search in searches]), []).append(name)
    if len(names) == 1:
        return [Note("searched", how=next(iter(names)))]
    notes = [Note("searched_by", names=rows, how=how) for how, rows in names.items()]
    return [Note("searched_unlike", searches=notes)]
