"""The cells of the paper's tables: a published number, or ours with all that must be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.paper import experiments
from harness.paper.reported import Reported
from results.compare.measured import Measured, at_rate, is_time, measured, slip
from results.compare.ours import Ours
from results.compare.select import Choice
from results.compare.stats import Summary
from results.formats.cells import Cell
from results.tables import fields, footnotes, paper_verdicts, timing
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
    if line is None or not line.printed:
        return Cell()
    return Cell(Summary(line.value, None, 1), line.digits, notes=slip(line))


def of_runs(layout: Layout, ours: Ours, lines: Sequence[Reported]) -> Cells:
    """Our figures beside some published numbers, with footnotes on what is missing and how far to trust them.

    Bold is the best one of a workload if it is better than all others of the section.
    """
    found = {line: _figure(layout, ours, line) for line in lines}
    verdicts = paper_verdicts.verdicts(layout, ours.scale, found)
    timing_notes = _timing_notes(found)
    seeds = [len(one.sample) for one in found.values()]
    cells = {}
    for line, one in found.items():
        verdict = verdicts.get(line, paper_verdicts.NONE)
        few = footnotes.fewer("on", len(one.sample), seeds) if one.sample else ()
        cell = replace(_cell(one), bold=verdict.bold and not few).noted(
            *few, *verdict.notes, *timing_notes.get(line, ())
        )
        cells[line] = _with_choice(layout, ours, line, cell, one, verdict.rivals)
    return Cells(found, cells, paper_verdicts.sentences(verdicts.values()))


def _timing_notes(found: Mapping[Reported, Measured]) -> dict[Reported, tuple[str, ...]]:
    """Footnotes to times that were not measured like most others of their workload."""
    groups: dict[tuple[str, str], list[Reported]] = {}
    for line, one in found.items():
        if is_time(line) and one.sample:
            groups.setdefault((line.model, line.metric.partition("_to_")[0]), []).append(line)
    return {
        line: notes
        for own in groups.values()
        for line, notes in zip(own, timing.notes([found[line].runs for line in own]), strict=True)
    }


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
    choice = one.choice
    if choice is None or choice.winner is None or not fields.leaves_p_open(line):
        return ()
    p, tried = choice.winner.value("p"), [candidate.value("p") for candidate in choice.candidates]
    end = {min(tried): ", the smallest one tried", max(tried): ", the largest one tried"}.get(p, "")
    return (f"p = {p:g}{end}; chosen among {choice.tried} settings of p and lr",)


def _caveats(ours: Ours, line: Reported, choice: Choice | None, rivals: Sequence[Choice]) -> tuple[str, ...]:
    """Footnotes to a choice: not final, at an edge of its grid, tied, replicas that do not count."""
    if choice is None:
        return ()
    notes = [*footnotes.unfinished(choice), *footnotes.stale(choice)]
    if choice.winner is not None and len(choice.candidates) > 1:
        part = ours.runs(experiments.place(line, ours.scale))
        notes += [note for own in footnotes.caveats(part, choice, ["lr"], rivals).values() for note in own]
    return tuple(notes)
