"""The main table: what each optimizer's best setting achieves on seeds and data that did not choose it."""

import math
import statistics
from collections.abc import Sequence

from htbench.harness.choice.winner import grouped
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import listing
from htbench.harness.show.report import Cell, Column, Section
from htbench.harness.store.points import SEARCH
from htbench.results.compare.judge import Kind, Verdict
from htbench.results.compare.select import Choice
from htbench.results.compare.summary import finite_values
from htbench.results.compare.unlike_searches import note_unlike_searches
from htbench.results.compare.workloads import expected_best
from htbench.results.frames.metrics import Metric
from htbench.results.frames.rows import Rows
from htbench.results.tables import footnotes
from htbench.results.tables.outcome import Outcome, Place
from htbench.results.tables.verdicts import RULES


def make_section(outcome: Outcome) -> Section:
    """The table of one workload, one row per optimizer."""
    workload, verdicts = outcome.workload, outcome.verdicts
    part, choices, staged = workload.part, workload.choices, workload.staged
    counts = [choice.tried if staged else len(choice.candidates) for choice in choices]
    if set(counts) == {1}:
        chosen = Note("one_setting" if staged and not workload.file else "one_setting_here")
    elif not staged:  # what chose a setting is reported, too
        chosen = Note("chosen_here", axes=workload.axes or ["The setting"])
    else:
        chosen = Note("chosen_validation" if outcome.is_validated else "chosen_search", axes=workload.axes)
    notes = (
        chosen,
        *_note_budgets(choices),
        *outcome.fixed,
        *_note_searches(part),
        *note_unlike_searches(choices),
        footnotes.SPREAD,
        *(verdicts.notes(outcome.open) if verdicts else RULES if staged or workload.file else ()),
        *([Note("time_step")] if any(place.ms_per_step.text() for place in outcome.places) else []),
        *footnotes.note_origin(part),
    )
    table = [_make_row(outcome, place) for place in outcome.places]
    columns = [column for column in table[0] if any(row[column].text() for row in table)]
    rows = [[row[column] for column in columns] for row in table]
    title, identity = footnotes.make_title(part), footnotes.workload_columns(part)
    return footnotes.complete_section(Section(title, identity, columns, rows, notes=notes), part)


# --- the columns ---


def _make_row(outcome: Outcome, place: Place) -> dict[Column, Cell]:
    """All that is known of an optimizer. A column without anything in any row leaves the table."""
    choice, metric = place.choice, outcome.workload.metric
    row = dict[Column, Cell]()
    here = choice.tried - choice.elsewhere  # so many of the settings that were tried for it could win
    elsewhere = (Note("tried_elsewhere", count=here, tried=choice.tried),) if choice.elsewhere else ()
    left_out = (*elsewhere, *footnotes.note_left_out(choice, metric), *outcome.dropped)
    row[Column("tried")] = Cell(choice.tried, notes=(*left_out, *place.standing.notes))
    row |= {make_summary_column(tested, outcome.workload.split): cell for tested, cell in place.tests.items()}
    few = footnotes.note_fewer_seeds("fewer_reported", place.n, outcome.seeds)
    row[Column("", "n")] = Cell(place.n, notes=(*footnotes.note_stale(choice), *few)) if place.n else Cell()
    row |= _list_verdict(place.judged, metric)
    most = max(len(each.levels) for each in outcome.places)
    for k in (3, 10, 30):  # settings, where some row has more than that
        if most > k:
            row[Column(f"val_best_of_{k}", f"best of {k}", importance=1)] = _expect_best(place, k, metric)
    if outcome.is_validated:
        count = len(choice.winner.runs) if choice.winner else max(outcome.search_seeds)
        few = footnotes.note_fewer_seeds("fewer_chosen", count, outcome.search_seeds)
        row[make_summary_column(metric, "val")] = footnotes.make_validation_cell(choice, metric).noted(*few)
    # Has it learned anything?
    runs = choice.winner.runs if choice.winner else []
    trained, untrained = (finite_values(runs, name) for name in ("val_loss", "untrained_val_loss"))
    ratio = statistics.fmean(trained) / statistics.fmean(untrained) if untrained else None
    row[Column("val_loss_ratio", "val loss / untrained")] = Cell(ratio, digits=3)
    row[Column("ms_per_step", "ms/step", "summary")] = place.ms_per_step
    taken = {column.name for column in row}
    settings = {
        Column(f"optimizer.{name}" if name in taken else name, name): cell
        for name, cell in place.settings.items()
    }
    return {Column("optimizer", kind="text"): Cell(place.name, notes=place.about)} | settings | row


def _list_verdict(ranked: Verdict | None, metric: Metric) -> dict[Column, Cell]:
    """Rank, distance to the best with its interval, and what is known of a row."""
    behind = ranked if ranked is not None and ranked.kind is not Kind.BEST else None
    needed = behind and behind.seeds_needed
    scale, unit = metric.gap
    gap, digits = {"nats": "gap_nats", "points": "gap_points"}.get(unit, "gap"), 4 if scale == 1 else 2
    return {
        Column("rank", kind="text"): Cell(ranked.rank_word if ranked else ""),
        Column(gap, f"gap ({unit})"): Cell(behind and scale * behind.gap, digits),
        Column(f"{gap}_low95", "from"): Cell(behind and scale * behind.low, digits),
        Column(f"{gap}_high95", "to"): Cell(behind and scale * behind.high, digits),
        Column("p_value", "p-value"): Cell(behind and float(f"{behind.p_value:.2g}")),
        Column("verdict", kind="text"): Cell(ranked.kind.value if ranked else ""),
        Column("seeds_needed", "seeds needed"): Cell(needed and needed.estimate, 0),
        Column("seeds_needed_low", "from"): Cell(needed and needed.low, 0),
        Column("seeds_needed_high", "to"): Cell(needed and needed.high, 0),
    }


def _expect_best(place: Place, k: int, metric: Metric) -> Cell:
    """The best validation result to expect of k settings; empty if all of them may have no result."""
    values = place.levels
    if len(values) < k or sum(map(math.isfinite, values)) <= len(values) - k:
        return Cell()
    best = expected_best(values, k, higher_is_better=metric.higher_is_better)
    return Cell(metric.printed(best), metric.digits)


def make_summary_column(metric: Metric, split: str) -> Column:
    """The column of a metric over seeds; an empty split is not named."""
    name, label = (filter(None, (split, word)) for word in (metric.column, metric.label))
    return Column("_".join(name), " ".join(label), "summary", bounds=metric.bounds)


# --- budgets: more trials make a better best one likelier ---


def _note_budgets(choices: Sequence[Choice]) -> list[Note]:
    """How many settings of each optimizer were tried."""
    dropped = [
        Note("budget_of", settings=choice.dropped, name=choice.optimizer)
        for choice in choices
        if choice.dropped
    ]
    notes = [Note("budget_dropped", dropped=dropped)] if dropped else []
    by_count = sorted(grouped(choices, lambda choice: choice.tried).items(), reverse=True)
    groups = [(tried, [choice.optimizer for choice in alike]) for tried, alike in by_count]
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


def _note_searches(part: Rows) -> list[Note]:
    """How studies searched. Grids say it all by their size, except beside a search."""
    pairs = dict.fromkeys((run["optimizer"], run["search"]) for run in part if run["stage"] == SEARCH)
    if not any(search for _, search in pairs):
        return []
    names: dict[str, list[str]] = {}  # by the words for their searches
    for name, searches in grouped(pairs, lambda pair: str(pair[0])).items():
        names.setdefault(listing([search or "a grid" for _, search in searches]), []).append(name)
    if len(names) == 1:
        return [Note("searched", how=next(iter(names)))]
    notes = [Note("searched_by", names=rows, how=how) for how, rows in names.items()]
    return [Note("searched_unlike", searches=notes)]
