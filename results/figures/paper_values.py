"""The values that a figure of the paper shows: published numbers and ours, found by the published line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.paper import experiments, reported
from harness.paper.reported import Reported, Setting
from results.compare.measured import Measured, measured, of_choices
from results.compare.select import Row
from results.figures.kinds import PUBLISHED, RUNS
from results.figures.view import View

_SHOWN = {"completed": "without the figure", "waiting": "not run yet"}  # other states are words already


@dataclass(frozen=True)
class Value:
    """A value in the unit of its label.

    Attributes:
        y: None if there is none; then `state` says why.
        sd: over seeds; None with one, and of published numbers.
        n: seeds; None of published numbers, which do not say it.
        source: PUBLISHED or RUNS.
        label: the metric with its unit.
        keys: the runs behind it.
        state: of the runs, in words.
    """

    y: float | None
    sd: float | None
    n: int | None
    source: str
    label: str
    keys: tuple[str, ...] = ()
    state: str = ""


def lines(
    table: str, dataset: str, model: str, optimizers: Iterable[str] = (), metric: str = ""
) -> list[Reported]:
    """The published numbers of a table on one workload.

    Args:
        table, dataset, model: as in `Reported`.
        optimizers: only these, in their order; all in the table's order if empty.
        metric: only this one; empty for all.
    """
    known = [
        one
        for one in reported.of_table(table)
        if (one.dataset, one.model) == (dataset, model) and metric in ("", one.metric)
    ]
    names = list(optimizers) or list(dict.fromkeys(one.setting.optimizer for one in known))
    return [one for name in names for one in known if one.setting.optimizer == name]


def unpublished(beside: Reported, optimizer: str) -> Reported:
    """The line that a table would have of an optimizer that is only in a figure of the paper."""
    return replace(beside, row=optimizer, setting=Setting(optimizer), lr=None, table="", printed="nan")


def values(view: View, line: Reported, *, is_published: bool = True) -> list[Value]:
    """What a view shows of a line: published first."""
    found = [published(line)] if view.published and is_published else []
    return [*found, *([ours(measured(view.ours, line))] if view.ours is not None else [])]


def published(line: Reported) -> Value:
    """The printed number."""
    labels = {"accuracy": "accuracy (%)", "seconds_per_step": "s/step"}
    return Value(line.value, None, None, PUBLISHED, labels.get(line.metric, line.metric))


def ours(found: Measured) -> Value:
    """Our number."""
    label = found.metric.label if found.metric else ""
    summary = found.summary
    if summary is None:
        state = _SHOWN.get(found.state, found.state)
        return Value(None, None, None, RUNS, label, state=state)
    return Value(summary.mean, summary.std, summary.n, RUNS, label, found.keys)


def at_published_rate(view: View, line: Reported, lr: float | None) -> Measured:
    """Our number beside a line, at full scale with the learning rate of the figure, else with the best."""
    assert view.ours is not None
    if view.scale != "paper" or lr is None:
        return measured(view.ours, line)
    return of_choices(view.ours, line, view.ours.choices(experiments.place(line, view.scale), lr))


def completed(found: Measured) -> Sequence[Row]:
    """The runs behind a number; none without it."""
    return found.runs if found.sample else []
