"""The main table: what each optimizer's best setting achieves on seeds and data that did not choose it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from harness.choice.winner import grouped
from harness.config import hyper_schedules
from harness.show.note import Note
from harness.show.numbers import listing
from harness.show.report import Cell, Column, Section
from harness.show.status import UNFINISHED, Status
from harness.store import Store
from harness.store.points import SEARCH
from results.compare import fixed as fixed_settings
from results.compare.contender import contender, reach, settings_of
from results.compare.select import OPTIMIZER, Candidate, Choice, axes_of, choose, has_stages
from results.compare.summary import finite_values, metric_summary, values_by_seed
from results.compare.workloads import expected_best
from results.frames import imported
from results.frames.load import tuned_columns
from results.frames.metrics import BITS_PER_BYTE, Metric, reported
from results.frames.rows import Frame, rows
from results.tables import footnotes, timing
from results.tables.verdicts import RULES, Verdicts, compare

Term = TypeVar("Term", bound=Hashable)


def section(part: Frame, store: Store | None = None) -> Section:
    """One workload, one row per optimizer.

    Fixed: task, model, setting, optimizer. Selected over: all else that was searched.

    Args:
        part: the rows of one workload.
        store: where the test items are; None: they are not known.
    """
    choices = choose(part, OPTIMIZER)
    names = [str(choice.fixed["optimizer"]) for choice in choices]
    axes = axes_of(choices)
    staged, of_others = has_stages(rows(part)[0]), bool(imported.source(part))
    metrics = reported(part)
    first = _verdicts(part, choices, names, metrics[0], store)
    # Bits per byte are the loss in another unit, so what is said of perplexity holds for them.
    same = [metric for metric in metrics if metric is metrics[0] or metric is BITS_PER_BYTE]
    verdicts = {
        metric: first if metric in same else _verdicts(part, choices, names, metric, store)
        for metric in metrics
    }
    columns, cells = [], []
    shown = _shown(choices, axes)
    fixed = [name for name in tuned_columns(part) if name not in shown]
    otherwise, on_fixed = fixed_settings.notes(choices, names, fixed)
    for column, own in _columns(part, choices, axes, verdicts, fixed, otherwise):
        if any(cell.text() for cell in own):  # a column without any text is left out
            columns.append(column)
            cells.append(own)
    timed = any(column.name == "ms_per_step" for column in columns)
    notes = (
        _chosen(choices, axes, staged),
        *_budgets(choices, names),
        *on_fixed,
        *_terms(part),
        footnotes.SPREAD,
        *((RULES if first is None else first.notes()) if staged or of_others else ()),
        *([Note("time_step_imported" if of_others else "time_step")] if timed else []),
        *footnotes.origin(part),
    )
    lines = [list(line) for line in zip(*cells, strict=True)]
    return Section(footnotes.title(part), footnotes.identity(part), columns, lines, notes=notes)


def _chosen(choices: Sequence[Choice], axes: list[str], staged: bool) -> Note:
    """How settings were chosen. Of runs without stages, what chose a setting is reported, too."""
    if staged:
        alone = all(choice.tried == 1 for choice in choices)
        return Note("one_setting") if alone else Note("chosen_validation", axes=axes)
    alone = all(len(choice.candidates) == 1 for choice in choices)
    return Note("one_setting_here") if alone else Note("chosen_here", axes=axes or ["The setting"])


def _verdicts(
    part: Frame, choices: Sequence[Choice], names: Sequence[str], metric: Metric, store: Store | None
) -> Verdicts | None:
    """What the statistics say of a metric; None while a run may change it, or if it can't be fair."""
    first = rows(part)[0]
    fair = all(map(_is_settled, choices)) and first["protocol"] != "paper"
    if not has_stages(first):  # what chose a setting is reported, too
        fair = fair and bool(imported.source(part)) and all(len(choice.candidates) == 1 for choice in choices)
    if not fair:
        return None
    questions = "test_samples" if metric.is_share else ""
    contenders = [
        contender(name, values_by_seed(own.replicas, metric), metric, own.replicas, questions, own, store)
        for name, own in zip(names, choices, strict=True)
    ]
    gains = [reach(own, metric) if has_stages(first) else {} for own in choices]
    looks = max((int(run["look"]) for own in choices for run in own.replicas), default=0)
    return compare(contenders, names, [own.tried for own in choices], metric, gains, looks)


def _is_settled(choice: Choice) -> bool:
    """Whether no run that is still to come, or to be tried again, can change the row."""
    if choice.unfinished:
        return False
    states = {run["state"] for run in choice.replicas}
    return choice.winner is None or (bool(states) and states.isdisjoint(UNFINISHED))


# --- the columns ---


def _columns(
    part: Frame,
    choices: Sequence[Choice],
    axes: list[str],
    verdicts: Mapping[Metric, Verdicts | None],
    fixed: Sequence[str],
    otherwise: Sequence[tuple[Note, ...]],
) -> list[tuple[Column, list[Cell]]]:
    """Every column with its cells, one per choice."""
    first, *_ = verdicts
    verdict, winners = verdicts[first], [choice.winner for choice in choices]
    schedules = [_schedules(winner) for winner in winners]
    caveats = [
        footnotes.caveats(own, axes, partial(verdict.outlook, at) if verdict else None) if own.winner else {}
        for at, own in enumerate(choices)
    ]
    tests = {metric: _tests(choices, metric, verdicts[metric]) for metric in verdicts}
    budgets = verdict.budgets if verdict else [()] * len(choices)
    ended = [run for run in rows(part) if run["state"] == Status.COMPLETED]
    once = bool(imported.source(part)) and imported.has_one_split(ended, first.name)
    return [
        (
            Column("optimizer", kind="text"),
            [
                Cell(str(own.fixed["optimizer"]), notes=(*footnotes.unfinished(own), *notes))
                for own, notes in zip(choices, otherwise, strict=True)
            ],
        ),
        *(
            (
                Column(name),
                [
                    Cell(schedule.get(name) or _value(winner, name), notes=notes.get(name, ()))
                    for winner, schedule, notes in zip(winners, schedules, caveats, strict=True)
                ],
            )
            for name in tuned_columns(part)
            if name not in fixed
        ),
        (
            Column("tried"),
            [
                Cell(own.tried, notes=(*_elsewhere(own), *notes))
                for own, notes in zip(choices, budgets, strict=True)
            ],
        ),
        *((summary(metric, "test"), tests[metric]) for metric in verdicts),
        (Column("", "n"), _counts(choices, tests[first])),
        *(verdict.columns() if verdict else []),
        *_smaller_budgets(choices, first),
        (summary(first, "val"), [] if once else _validations(choices, first)),
        (Column("val_loss_ratio", "val loss / untrained"), list(map(_untrained_ratio, choices))),
        (Column("ms_per_step", "ms/step", "summary"), timing.cells(choices)),
    ]


def _smaller_budgets(choices: Sequence[Choice], metric: Metric) -> list[tuple[Column, list[Cell]]]:
    """The best validation result to expect of 3, 10 and 30 settings, where some row has more than that."""
    levels = [settings_of(own, metric) for own in choices]
    return [
        (
            Column(f"val_best_of_{k}", f"best of {k}", importance=1),
            [
                Cell(
                    metric.printed(expected_best(own, k, higher_is_better=metric.higher_is_better).mean),
                    metric.digits,
                )
                if len(own) >= k and sum(map(math.isfinite, own)) > len(own) - k
                else Cell()
                for own in levels
            ],
        )
        for k in (3, 10, 30)
        if max(map(len, levels)) > k
    ]


def _shown(choices: Sequence[Choice], axes: Sequence[str]) -> set[str]:
    """The settings that have a column: what was searched, lr and p, and what has a schedule in some row."""
    return {"lr", "p", *axes, *(name for choice in choices for name in _schedules(choice.winner))}


def summary(metric: Metric, split: str) -> Column:
    """The column of a metric over seeds."""
    return Column(f"{split}_{metric.column}", f"{split} {metric.label}", "summary", bounds=metric.bounds)


def _schedules(winner: Candidate | None) -> dict[str, str]:
    """How each hyperparameter with a schedule changes over a run, by its column: {"p": "0.25→-0.25"}."""
    settings = winner.runs[0] if winner is not None else {}
    parts = [hyper_schedules.split(name) for name in settings if isinstance(settings[name], str)]
    names = [part[0] for part in parts if part is not None and part[1] == "name"]
    return {
        name: "→".join(f"{settings[f'schedule.{name}.{end}']:g}" for end in ("from", "to")) for name in names
    }


def _value(winner: Candidate | None, name: str) -> str | float | None:
    return None if winner is None else footnotes.plain(winner.value(name))


def _tests(choices: Sequence[Choice], metric: Metric, verdict: Verdicts | None) -> list[Cell]:
    """The test cells of all rows, the best one bold if the statistics allow it."""
    cells = [_test(choice, metric) for choice in choices]
    bold = verdict.bold if verdict else [False] * len(cells)
    return [replace(cell, bold=best and not cell.notes) for cell, best in zip(cells, bold, strict=True)]


def _test(choice: Choice, metric: Metric) -> Cell:
    """The winner's test metric over its fresh seeds. Search runs never replace them."""
    runs = choice.replicas
    if choice.winner is None:
        return footnotes.missing(choice)
    if not runs:
        return Cell(state=Status.WAITING, notes=(Note("no_replicas"), *footnotes.stale(choice)))
    rest = [run for run in runs if not finite_values([run], f"test_{metric.name}")]
    count = {"count": len(runs) - len(rest), "total": len(runs)}
    notes = (Note("replicas_count", rest=footnotes.tally(rest), **count),) if rest else ()
    if len(rest) < len(runs):
        value = metric_summary(runs, "test", metric)
        return Cell(value, metric.digits, notes=notes, runs=footnotes.keys(runs))
    state = next(state for state in Status if any(run["state"] == state for run in rest))
    return footnotes.explain([run for run in rest if run["state"] == state]).noted(*notes)


def _counts(choices: Sequence[Choice], tests: Sequence[Cell]) -> list[Cell]:
    """The fresh seeds behind each test metric: how many, with a footnote if others have more."""
    seeds = [cell.spread.n if cell.spread else None for cell in tests]
    known = [n for n in seeds if n is not None]
    return [
        Cell()
        if n is None
        else Cell(n, notes=(*footnotes.stale(choice), *footnotes.fewer("fewer_reported", n, known)))
        for choice, n in zip(choices, seeds, strict=True)
    ]


def _validations(choices: Sequence[Choice], metric: Metric) -> list[Cell]:
    """The winners' validation metrics, with a footnote where fewer seeds chose than in other rows."""
    seeds = footnotes.seeds_of_search(choices)
    few = [
        footnotes.fewer("fewer_chosen", len(choice.winner.runs), seeds) if choice.winner else ()
        for choice in choices
    ]
    return [footnotes.validation(own, metric).noted(*notes) for own, notes in zip(choices, few, strict=True)]


def _untrained_ratio(choice: Choice) -> Cell:
    """The validation loss as a fraction of the untrained model's: has it learned anything?"""
    runs = choice.winner.runs if choice.winner else []
    trained, untrained = (finite_values(runs, name) for name in ("val_loss", "untrained_val_loss"))
    if not untrained:
        return Cell()
    return Cell(statistics.fmean(trained) / statistics.fmean(untrained), digits=3)


# --- budgets: more trials make a better best one likelier ---


def _budgets(choices: Sequence[Choice], names: Sequence[str]) -> list[Note]:
    """How many settings of each optimizer were tried."""
    groups = sorted(_by(lambda at: choices[at].tried, names).items(), reverse=True)
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
    if any(choice.elsewhere for choice in choices):  # then a row was chosen among fewer
        counts = [Note("budget_count", settings=tried, names=names) for tried, names in groups]
        return [Note("budget_tried", counts=counts), *notes]
    (most, own), *others = groups
    rest = [Note("budget_rest", names=names, settings=tried) for tried, names in others]
    return [Note("budget", names=own, count=len(own), most=most, rest=rest), *notes]


def _elsewhere(choice: Choice) -> tuple[Note, ...]:
    """The footnote to a row that was chosen among fewer settings than were tried for it."""
    count = choice.tried - choice.elsewhere
    return (Note("tried_elsewhere", count=count, tried=choice.tried),) if choice.elsewhere else ()


def _terms(part: Frame) -> list[Note]:
    """How studies searched. Grids say it all by their size, except beside a search."""
    pairs = dict.fromkeys((run["optimizer"], run["search"]) for run in rows(part) if run["stage"] == SEARCH)
    if not any(search for _, search in pairs):
        return []
    by_name = grouped(pairs, lambda pair: str(pair[0]))
    terms = [listing([search or "a grid" for _, search in own]) for own in by_name.values()]
    groups = _by(lambda at: terms[at], list(by_name))
    if len(groups) == 1:
        return [Note("searched", how=terms[0])]
    notes = [Note("searched_by", names=names, how=how) for how, names in groups.items()]
    return [Note("searched_unlike", searches=notes)]


def _by(term: Callable[[int], Term], names: Sequence[str]) -> dict[Term, list[str]]:
    """The names of each term, in their order."""
    return {key: [names[at] for at in own] for key, own in grouped(range(len(names)), term).items()}
