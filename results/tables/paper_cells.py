"""The cells of the paper's tables: a published number, or ours with all that must be said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.paper import experiments
from harness.paper.reported import Reported
from results.analysis.select import UNFINISHED, Choice
from results.analysis.stats import Summary, best_rows
from results.formats.cells import Cell
from results.paper.measured import Measured
from results.paper.ours import Ours
from results.tables import footnotes

_TIMES = ("hours", "seconds", "s/step", "ms/step")  # labels of quantities that no row is to win


@dataclass(frozen=True)
class Entry:
    """One of our figures and the cell that shows it.

    Attributes:
        line: the published number beside it.
        measured: the figure.
        cell: as it is shown.
    """

    line: Reported
    measured: Measured
    cell: Cell


def published(line: Reported) -> Cell:
    """A printed number: one run, without spread."""
    return Cell(Summary(line.value, None, 1), line.digits)


def entry(ours: Ours, line: Reported, measured: Measured) -> Entry:
    """Our figure with its footnotes: what is missing, and how far the choice can be trusted."""
    cell = _cell(measured)
    if measured.choice is not None and cell.text():
        cell = cell.noted(*_caveats(ours, line, measured.choice))
    return Entry(line, measured, cell)


def _cell(measured: Measured) -> Cell:
    if measured.summary is not None and measured.metric is not None:
        return Cell(measured.summary, measured.metric.digits, notes=measured.notes, runs=measured.keys)
    if measured.state == "unplanned":
        return Cell()
    if not measured.runs:
        return Cell(state=measured.state, notes=(measured.reason, *measured.notes))
    return footnotes.explain(measured.runs).noted(*measured.notes)


def _caveats(ours: Ours, line: Reported, choice: Choice) -> tuple[str, ...]:
    """Footnotes to a choice: not final, at an edge of its grid, tied, replicas that do not count."""
    notes = [*footnotes.unfinished(choice), *footnotes.stale(choice)]
    if choice.winner is not None and len(choice.candidates) > 1:
        part = ours.runs(experiments.place(line, ours.scale))
        notes += [note for own in footnotes.caveats(part, choice, ["lr"]).values() for note in own]
    return tuple(notes)


def emphasised(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, the best one of each workload and metric bold if it is better than every other one.

    Nothing is bold among times, nor where settings were chosen on the reported split, nor while a run is
    missing or has failed.
    """
    rivals: dict[tuple[str, str, str], list[int]] = {}
    for index, one in enumerate(entries):
        if one.measured.metric is not None and one.measured.state != "unplanned":
            group = (one.line.dataset, one.line.model, one.measured.metric.label)
            rivals.setdefault(group, []).append(index)
    found = list(entries)
    for group, own in rivals.items():
        if group[-1] not in _TIMES:
            for index, best in zip(own, _bold([entries[i].measured for i in own]), strict=True):
                one = entries[index]
                found[index] = replace(one, cell=replace(one.cell, bold=best and not one.measured.notes))
    return found


def _bold(rivals: Sequence[Measured]) -> list[bool]:
    """The one place that decides about bold print."""
    metric = rivals[0].metric
    assert metric is not None
    if not all(map(_is_settled, rivals)):
        return [False] * len(rivals)
    samples = [one.as_sample for one in rivals]
    return best_rows(samples, higher_is_better=metric.higher_is_better, digits=metric.digits)


def _is_settled(one: Measured) -> bool:
    """Whether no run that is still to come, or to be tried again, can change it."""
    choice = one.choice
    if choice is None or choice.unfinished or one.state in UNFINISHED:
        return False
    unfinished = not {run["state"] for run in choice.replicas}.isdisjoint(UNFINISHED)
    return not unfinished and "protocol=paper" not in str(choice.fixed["setting"]).split(", ")
