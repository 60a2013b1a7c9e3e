"""What is known of one workload: a row for each optimizer, with its choice and what the judge says of it.

All that is shown of a workload are columns of these rows: the table `main_result`, and the answer on a screen
with what a person needs first. They are found once.
"""

import functools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.config import hyper_schedules
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell
from htbench.harness.show.status import Status
from htbench.harness.store.points import DROPPED
from htbench.results.compare import untuned_settings
from htbench.results.compare.chance import note_learned_nothing
from htbench.results.compare.contender import list_setting_values, make_judge_row
from htbench.results.compare.defaults import format_setting
from htbench.results.compare.from_file import note_misleading_runs
from htbench.results.compare.judge import Kind, Verdict
from htbench.results.compare.select import Choice
from htbench.results.compare.stats import MIN_SEEDS
from htbench.results.compare.summary import finite_values, metric_summary, values_by_seed
from htbench.results.compare.workload import Workload
from htbench.results.frames.load import tuned_columns
from htbench.results.frames.metrics import BITS_PER_BYTE, Metric, describe_task
from htbench.results.tables import footnotes, timing
from htbench.results.tables.verdicts import Standing, Verdicts, compare_rows


@dataclass(frozen=True)
class Place:
    """One optimizer's chosen setting.

    Attributes:
        choice: what was selected.
        standing: what the judge says of it.
        judged: the verdict on it, if it and the best one have seeds enough for a rank.
        gap, low, high: how far it is behind the best, with the interval of the test that decides the tie (all
            intervals of a table hold together), in the unit of the value; None where nothing tells it, and
            for the best.
        tests: mean and spread of each test metric over fresh seeds, or the state why there is none; first
            that of the metric by which runs are chosen.
        ms_per_step: mean and spread over its runs.
        settings: the chosen values by column, a schedule in words, with footnotes on how far to trust them.
        about: footnotes to the row: settings that nobody searched or that do nothing, if it is another row
            bit for bit, and if it has learned nothing.
        notes: all that is to be known of it; empty until its table is made.
    """

    choice: Choice = field(compare=False, repr=False)
    standing: Standing
    judged: Verdict | None
    gap: float | None
    low: float | None
    high: float | None
    tests: Mapping[Metric, Cell]
    ms_per_step: Cell
    settings: Mapping[str, Cell]
    about: tuple[Note, ...]
    notes: tuple[Note, ...] = ()

    @property
    def name(self) -> str:
        """Of its row."""
        return self.choice.optimizer

    @property
    def value(self) -> Cell:
        """On test, by the metric by which runs are chosen."""
        return next(iter(self.tests.values()))

    @property
    def n(self) -> int:
        """How many fresh seeds have a value."""
        return self.value.spread.n if self.value.spread is not None else 0

    @functools.cached_property
    def levels(self) -> list[float]:
        """Validation results of all of its settings, on the scale of the comparison."""
        return list_setting_values(self.choice, next(iter(self.tests)))

    @property
    def rank(self) -> str:
        """Such as "1=" or "3"; empty if it can't be ranked."""
        return "" if self.judged is None else self.judged.rank_word

    @property
    def kind(self) -> Kind | None:
        """What is known of it beside the best; None without a verdict."""
        return None if self.judged is None else self.judged.kind

    @property
    def setting(self) -> dict[str, Any]:
        """The chosen values that there are, by column."""
        return {name: cell.value for name, cell in self.settings.items() if cell.value is not None}


@dataclass(frozen=True)
class Outcome:
    """What is known of one workload.

    Attributes:
        workload: its runs, with what was chosen of each optimizer.
        places: a row for each optimizer, in the order of the plan.
        verdicts: what the statistics say of it; None while a run may change it, or if it can't be fair.
        fixed: what stands under the table on settings that nobody searched, on those of auxiliary parameters,
            and on one rule under two names.
    """

    workload: Workload
    places: Sequence[Place]
    verdicts: Verdicts | None
    fixed: tuple[Note, ...]

    @property
    def items(self) -> str:
        """What a test item is called."""
        return "images" if describe_task(self.workload.part).kind == "image" else "items"

    @functools.cached_property
    def seeds(self) -> list[int]:
        """The fresh seeds behind each row."""
        return [place.n for place in self.places]

    @functools.cached_property
    def search_seeds(self) -> list[int]:
        """On how many seeds each setting was searched."""
        return footnotes.count_search_seeds(self.workload.choices)

    @functools.cached_property
    def is_validated(self) -> bool:
        """Whether what chose is not what is reported."""
        if not self.workload.file:
            return self.workload.split != "val"
        val, test = (f"{split}_{self.workload.metric.name}" for split in ("val", "test"))
        return any(run[val] != run[test] for run in self.workload.part if run["state"] == Status.COMPLETED)

    @functools.cached_property
    def dropped(self) -> list[Note]:
        """On runs of optimizers that have no row any more."""
        runs = Counter(str(run["optimizer"]) for run in self.workload.part if run["stage"] == DROPPED)
        without_row = sorted(runs.keys() - {place.name for place in self.places})
        return [Note("row_dropped", name=name, runs=runs[name]) for name in without_row]

    @functools.cached_property
    def open(self) -> list[Note]:
        """What is not told from the best row, with what would tell it."""
        drawn = any(run["slot"] for choice in self.workload.choices for run in choice.rows)
        planned = self.workload.staged and not self.workload.file
        return [] if self.verdicts is None else self.verdicts.would_tell(self.items, drawn, planned)

    @functools.cached_property
    def ranked(self) -> list[Place]:
        """The rows by their means, the best first; then those without a verdict, last those without value."""
        sign = -1 if self.workload.metric.higher_is_better else 1

        def order(place: Place) -> tuple[bool, float, bool]:
            verdict, value = place.standing.verdict, place.value.number()
            if verdict is not None:
                return False, verdict.gap, verdict.kind is not Kind.BEST
            return True, math.inf if value is None else sign * value, False

        return sorted(self.places, key=order)


def judge_workload(workload: Workload) -> Outcome:
    """Judge what was chosen.

    Fixed: task, model, setting, optimizer. Selected over: all else that was searched.
    """
    choices, store = workload.choices, workload.store
    twins = untuned_settings.find_twins(choices)
    axes, columns = workload.axes, tuned_columns(workload.part)
    metric, *others = workload.metrics
    rules, one_rule = untuned_settings.find_rules(choices, twins)
    first = _judge_metric(workload, rules, twins, metric)
    verdicts = {metric: first} | {
        # Bits per byte are the loss in another unit, so what is said of perplexity holds for them.
        other: first if other is BITS_PER_BYTE else _judge_metric(workload, rules, twins, other)
        for other in others
    }
    schedules = [_format_schedules(choice) for choice in choices]
    shown = {"lr", "p", *axes, *(name for schedule in schedules for name in schedule)}
    untuned = [name for name in columns if name not in shown]
    of_rows, fixed = untuned_settings.note_fixed_settings(choices, untuned, twins)
    nothing = [Standing()] * len(choices)
    standings = {other: nothing if own is None else own.rows for other, own in verdicts.items()}
    tests = [
        {other: _make_test_cell(choice, other, standings[other][at].bold) for other in standings}
        for at, choice in enumerate(choices)
    ]
    times, best = timing.make_time_cells(choices), None if first is None else first.best
    best_value = None if best is None else tests[list(rules).index(best.name)][metric].number()
    rows = first.judged if first else []
    enough = [row for row in rows if row.n >= MIN_SEEDS]
    enough = enough if len(enough) > 1 or len(rows) == 1 else []  # no rank in front of rows that have none
    places = []
    for at, choice in enumerate(choices):
        standing = standings[metric][at]
        verdict = standing.verdict
        judged = verdict if best in enough and verdict in enough else None
        gap, low, high = _convert_gap(judged, metric, best_value)
        caveats = footnotes.note_caveats(choice, axes, standing.outlook) if choice.winner else {}
        settings = {
            name: Cell(schedules[at].get(name) or _read_setting(choice, name), notes=caveats.get(name, ()))
            for name in columns
            if name in shown
        }
        about = (
            *footnotes.note_unfinished(choice),
            *note_learned_nothing(choice.replicas, metric, store),
            *note_misleading_runs(choice, choices),
            *of_rows.get(choice.optimizer, ()),
        )
        place = Place(choice, standing, judged, gap, low, high, tests[at], times[at], settings, about)
        places.append(place)
    below = (*one_rule, *fixed, *untuned_settings.note_split(choices, columns))
    return Outcome(workload, places, first, below)


def _judge_metric(
    workload: Workload, rules: Mapping[str, str], twins: Collection[str], metric: Metric
) -> Verdicts | None:
    """What the statistics say of a metric; None while a run may change it, or if it can't be fair."""
    choices = workload.choices
    # Of a file without stages what chose a setting is reported, too.
    is_fair = workload.is_fair or (workload.file and all(len(choice.candidates) == 1 for choice in choices))
    if not is_fair or not all(choice.is_settled for choice in choices):
        return None
    contenders = [
        None
        if (name := choice.optimizer) in twins
        else make_judge_row(
            name, values_by_seed(choice.replicas, metric), metric, choice.replicas, choice, workload.store
        )
        for choice in choices
    ]
    return compare_rows(contenders, rules, choices, metric)


def _convert_gap(
    verdict: Verdict | None, metric: Metric, best: float | None
) -> tuple[float | None, float | None, float | None]:
    """A gap and its interval from the scale of the comparison to the unit of the values; 0 stays 0.

    Args:
        verdict: on the row.
        metric: of the values.
        best: the best row's mean.
    """

    def convert(end: float) -> float | None:
        if not math.isfinite(end):
            return None
        return best * math.expm1(end) if metric.is_log and best is not None else metric.gap[0] * end

    if verdict is None or verdict.kind is Kind.BEST:
        return None, None, None
    return convert(verdict.gap), convert(verdict.low), convert(verdict.high)


def _format_schedules(choice: Choice) -> dict[str, str]:
    """How each hyperparameter with a schedule changes over a run, by its column: {"p": "0.25→-0.25"}."""
    settings = choice.winner.runs[0] if choice.winner is not None else {}
    parts = [hyper_schedules.split(name) for name in settings if isinstance(settings[name], str)]
    names = [part[0] for part in parts if part is not None and part[1] == "name"]
    return {
        name: "→".join(f"{settings[f'schedule.{name}.{end}']:g}" for end in ("from", "to")) for name in names
    }


def _read_setting(choice: Choice, name: str) -> str | float | None:
    """A chosen setting; "none" only if another one was tried."""
    value = None if choice.winner is None else footnotes.to_plain(choice.winner.value(name))
    return format_setting(value) if value is None and choice.winner and name in choice.axes else value


def _make_test_cell(choice: Choice, metric: Metric, bold: bool) -> Cell:
    """The winner's test metric over its fresh seeds. Search runs never replace them."""
    runs = choice.replicas
    if choice.winner is None:
        return footnotes.explain_missing(choice)
    if not runs:
        return Cell(state=Status.WAITING, notes=(Note("no_replicas"), *footnotes.note_stale(choice)))
    rest = [run for run in runs if not finite_values([run], f"test_{metric.name}")]
    count = {"count": len(runs) - len(rest), "total": len(runs)}
    notes = (Note("replicas_count", rest=footnotes.count_by_state(rest), **count),) if rest else ()
    if len(rest) < len(runs):
        value = metric_summary(runs, "test", metric)
        keys = footnotes.list_keys(runs)
        return Cell(value, metric.digits, bold=bold and not notes, notes=notes, runs=keys)
    state = next(state for state in Status if any(run["state"] == state for run in rest))
    return footnotes.explain([run for run in rest if run["state"] == state]).noted(*notes)
