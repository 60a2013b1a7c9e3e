"""The cells of the paper's tables: a published number, or ours with all that must be said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.paper import experiments
from harness.paper.reported import Reported
from results.analysis.select import Choice
from results.analysis.stats import Summary
from results.formats.cells import Cell
from results.paper.measured import Measured, at_rate, measured
from results.paper.ours import Ours
from results.tables import fields, footnotes, paper_verdicts
from results.tables.layouts import Layout


@dataclass(frozen=True)
class Cells:
    """Our figures of one section.

    Attributes:
        measured: by the published number that they stand beside.
        cells: as they are shown.
        sentences: what the statistics say of them, for the notes.
    """

    measured: dict[Reported, Measured]
    cells: dict[Reported, Cell]
    sentences: tuple[str, ...]


def published(line: Reported | None) -> Cell:
    """A printed number: one run, without spread. Empty where the paper has none."""
    return Cell(Summary(line.value, None, 1), line.digits) if line and line.printed else Cell()


def of_runs(layout: Layout, ours: Ours, lines: Sequence[Reported]) -> Cells:
    """Our figures beside some published numbers, with footnotes on what is missing and how far to trust them.

    Bold is the best one of a workload if it is better than all others of the section.
    """
    found = {line: _figure(layout, ours, line) for line in lines}
    names = {line: fields.words(line, (*layout.rows, *layout.columns), ours.scale) for line in lines}
    verdicts = paper_verdicts.verdicts(found, names)
    cells = {}
    for line, one in found.items():
        verdict = verdicts.get(line, paper_verdicts.NONE)
        cell = replace(_cell(one), bold=verdict.bold).noted(*verdict.notes)
        cells[line] = _with_choice(layout, ours, line, cell, one, verdict.rivals)
    return Cells(found, cells, paper_verdicts.sentences(verdicts.values()))


def _figure(layout: Layout, ours: Ours, line: Reported) -> Measured:
    if layout.axis == "lr" and line.lr is not None:
        return at_rate(ours, line, line.lr)
    return measured(ours, line)


def _cell(one: Measured) -> Cell:
    if one.summary is not None and one.metric is not None:
        return Cell(one.summary, one.metric.digits, notes=one.notes, runs=one.keys)
    if one.state == "unplanned":
        return Cell()
    if not one.runs:
        return Cell(state=one.state, notes=(one.reason, *one.notes))
    return footnotes.explain(one.runs).noted(*one.notes)


def _with_choice(
    layout: Layout, ours: Ours, line: Reported, cell: Cell, one: Measured, rivals: Sequence[Choice]
) -> Cell:
    """The cell with footnotes to the choice. In a grid of learning rates only the best one has them."""
    if layout.axis != "lr":
        chosen = _chosen_p(line, one)
        return cell.noted(*chosen, *_caveats(ours, line, one.choice, rivals))
    best = ours.of(line)[-1] if one.summary else None
    if best is None or best.winner is None or best.winner.value("lr") != line.lr:
        return cell
    return replace(cell, chosen=True).noted(*_caveats(ours, line, best, ()))


def _chosen_p(line: Reported, one: Measured) -> tuple[str, ...]:
    """The footnote that says which p was chosen, where it was not fixed."""
    winner = one.choice.winner if one.choice else None
    if winner is None or not fields.leaves_p_open(line):
        return ()
    return (f"p = {winner.value('p'):g}",)


def _caveats(ours: Ours, line: Reported, choice: Choice | None, rivals: Sequence[Choice]) -> tuple[str, ...]:
    """Footnotes to a choice: not final, at an edge of its grid, tied, replicas that do not count."""
    if choice is None:
        return ()
    notes = [*footnotes.unfinished(choice), *footnotes.stale(choice)]
    if choice.winner is not None and len(choice.candidates) > 1:
        part = ours.runs(experiments.place(line, ours.scale))
        axes = ["lr", "p"] if fields.leaves_p_open(line) else ["lr"]
        notes += [note for own in footnotes.caveats(part, choice, axes, rivals).values() for note in own]
    return tuple(notes)
