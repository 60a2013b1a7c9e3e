"""What is known of one workload: each optimizer's choice and what the judge says of it.

The table `main_result` shows all of it, the answer on a screen what a person needs first. It is found once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from htbench.harness.config import hyper_schedules
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.store.points import SEARCH
from htbench.results.compare import untuned_settings
from htbench.results.compare.chance import note_learned_nothing
from htbench.results.compare.contender import make_contender
from htbench.results.compare.defaults import format_setting
from htbench.results.compare.from_file import note_misleading_runs
from htbench.results.compare.select import OPTIMIZER, Candidate, Choice, choose, find_axes, has_stages
from htbench.results.compare.summary import finite_values, metric_summary, values_by_seed
from htbench.results.compare.view import View
from htbench.results.frames import from_csv
from htbench.results.frames.load import tuned_columns
from htbench.results.frames.metrics import BITS_PER_BYTE, Metric, reported, task_kind
from htbench.results.frames.rows import Frame, Rows, parts, rows
from htbench.results.frames.run_row import CHOSEN
from htbench.results.tables import footnotes, timing
from htbench.results.tables.verdicts import Verdicts, compare_rows


@dataclass(frozen=True)
class Outcome:
    """What is known of one workload; lists have an entry per row.

    Attributes:
        part: its rows of the frame.
        choices: each optimizer's best setting.
        names: of the rows.
        axes: the columns along which any optimizer was searched.
        staged: whether a plan says which runs choose and which are reported.
        verdicts: what the statistics say of each metric, first the one by which runs are chosen; None while a
            run may change it, or if it can't be fair.
        tests: the test metrics over fresh seeds, or why there are none.
        times: milliseconds per step.
        settings: the values of each row's chosen settings by column, a schedule in words.
        shown: the columns of settings that have a column: what was searched, lr and p, what has a schedule.
        caveats: how far to trust each choice, by column.
        not_default: the footnotes to each row: settings that nobody searched or that do nothing, if it is
            another row bit for bit, and if it has learned nothing.
        fixed: what stands under the table on such settings, on those of auxiliary parameters, and on one rule
            under two names.
    """

    part: Frame
    choices: Sequence[Choice]
    names: Sequence[str]
    axes: list[str]
    staged: bool
    verdicts: dict[Metric, Verdicts | None]
    tests: dict[Metric, list[Cell]]
    times: list[Cell]
    settings: list[dict[str, str | float | None]]
    shown: list[str]
    caveats: list[dict[str, tuple[Note, ...]]]
    not_default: list[tuple[Note, ...]]
    fixed: tuple[Note, ...]

    @property
    def file(self) -> str:
        """The file of results that its runs were read from; empty for those of a store."""
        return from_csv.file_name(self.part)

    @property
    def is_chosen_split(self) -> bool:
        """Whether a program reports what its settings were chosen by."""
        return str(rows(self.part)[0]["protocol"]) == CHOSEN

    @property
    def split(self) -> str:
        """The split that is reported; a file need not say it."""
        if self.is_chosen_split:
            return "val"
        return from_csv.reported_split(self.part)

    @property
    def metric(self) -> Metric:
        """The one by which runs are chosen."""
        return next(iter(self.verdicts))

    @property
    def items(self) -> str:
        """What a test item is called."""
        return "images" if task_kind(self.part) == "image" else "items"

    @functools.cached_property
    def open(self) -> list[Note]:
        """What is not told from the best row, with what would tell it."""
        drawn = any(run["slot"] for choice in self.choices for run in choice.rows)
        planned = self.staged and not self.file
        return [] if self.verdict is None else self.verdict.would_tell(self.items, drawn, planned)

    @property
    def verdict(self) -> Verdicts | None:
        """What the statistics say of that metric."""
        return self.verdicts[self.metric]


def judge_workload(part: Frame, store: Store | None = None) -> Outcome:
    """Choose and judge.

    Fixed: task, model, setting, optimizer. Selected over: all else that was searched.

    Args:
        part: the rows of one workload.
        store: where the test items are; None: they are not known.
    """
    choices = choose(part, OPTIMIZER)
    names = [str(choice.fixed["optimizer"]) for choice in choices]
    axes = find_axes(choices)
    metrics = reported(part)
    rules, one_rule = untuned_settings.find_rules(choices, names)
    first = _judge_metric(part, choices, rules, metrics[0], store)
    # Bits per byte are the loss in another unit, so what is said of perplexity holds for them.
    same = [metric for metric in metrics if metric is metrics[0] or metric is BITS_PER_BYTE]
    verdicts = {
        metric: first if metric in same else _judge_metric(part, choices, rules, metric, store)
        for metric in metrics
    }
    schedules = [_format_schedules(choice.winner) for choice in choices]
    columns = tuned_columns(part)
    visible = {"lr", "p", *axes, *(name for schedule in schedules for name in schedule)}
    not_default, fixed = untuned_settings.note_fixed_settings(
        choices, names, [name for name in columns if name not in visible]
    )
    return Outcome(
        part,
        choices,
        names,
        axes,
        has_stages(rows(part)[0]),
        verdicts,
        {metric: _make_test_cells(choices, metric, verdicts[metric]) for metric in metrics},
        timing.make_time_cells(choices),
        [
            {name: schedule.get(name) or _read_setting(choice, name) for name in columns if name in visible}
            for choice, schedule in zip(choices, schedules, strict=True)
        ],
        [name for name in columns if name in visible],
        [
            footnotes.note_caveats(choice, axes, functools.partial(first.outlook, at) if first else None)
            if choice.winner
            else {}
            for at, choice in enumerate(choices)
        ],
        [
            (
                *note_learned_nothing(choice.replicas, metrics[0], store),
                *note_misleading_runs(choice, choices),
                *notes,
            )
            for choice, notes in zip(choices, not_default, strict=True)
        ],
        (*one_rule, *fixed, *untuned_settings.note_split(choices, names, columns)),
    )


def find_outcome(part: Rows, view: View) -> Outcome:
    """The same of some rows of a view, found once: answers and tables of a page ask for it."""
    at = tuple(map(id, part))
    if at not in view.known:
        view.known[at] = judge_workload(part, view.store)
    outcome: Outcome = view.known[at]
    return outcome


def _judge_metric(
    part: Frame, choices: Sequence[Choice], rules: Mapping[str, str], metric: Metric, store: Store | None
) -> Verdicts | None:
    """What the statistics say of a metric; None while a run may change it, or if it can't be fair."""
    first = rows(part)[0]
    fair = all(choice.is_settled for choice in choices) and first["protocol"] != "paper"
    if not has_stages(first):  # what chose a setting is reported, too
        is_file = from_csv.file_name(part) != ""
        fair = fair and is_file and all(len(choice.candidates) == 1 for choice in choices)
    if not fair:
        return None
    questions = "test_samples" if metric.is_share else ""
    contenders = [
        make_contender(
            name, values_by_seed(choice.replicas, metric), metric, choice.replicas, questions, choice, store
        )
        for name, choice in zip(rules, choices, strict=True)
    ]
    return compare_rows(contenders, rules, choices, metric)


def _format_schedules(winner: Candidate | None) -> dict[str, str]:
    """How each hyperparameter with a schedule changes over a run, by its column: {"p": "0.25→-0.25"}."""
    settings = winner.runs[0] if winner is not None else {}
    parts = [hyper_schedules.split(name) for name in settings if isinstance(settings[name], str)]
    names = [part[0] for part in parts if part is not None and part[1] == "name"]
    return {
        name: "→".join(f"{settings[f'schedule.{name}.{end}']:g}" for end in ("from", "to")) for name in names
    }


def _read_setting(choice: Choice, name: str) -> str | float | None:
    """A chosen setting; "none" only if another one was tried."""
    value = None if choice.winner is None else footnotes.to_plain(choice.winner.value(name))
    return format_setting(value) if value is None and choice.winner and name in choice.axes else value


def _make_test_cells(choices: Sequence[Choice], metric: Metric, verdict: Verdicts | None) -> list[Cell]:
    """The test cells of all rows, the best one bold if the statistics allow it."""
    cells = [_make_test_cell(choice, metric) for choice in choices]
    bold = verdict.bold if verdict else [False] * len(cells)
    return [replace(cell, bold=best and not cell.notes) for cell, best in zip(cells, bold, strict=True)]


def _make_test_cell(choice: Choice, metric: Metric) -> Cell:
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
        return Cell(value, metric.digits, notes=notes, runs=footnotes.list_keys(runs))
    state = next(state for state in Status if any(run["state"] == state for run in rest))
    return footnotes.explain([run for run in rest if run["state"] == state]).noted(*notes)


def split_searched(frame: Frame | None, columns: Sequence[str]) -> list[Rows]:
    """The parts of the frame that agree in some columns, but for replicas whose search has no run there.

    Data may have changed between the two.
    """
    return [part for part in parts(frame, columns) if any(row["stage"] == SEARCH for row in part)]
