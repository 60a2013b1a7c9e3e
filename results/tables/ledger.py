"""The ledger: every published number beside ours, with a verdict.

At full scale the verdict is on the difference of the two. Elsewhere numbers are others: there it is the
judge's, on ours among the rows that the paper compares.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from htbench.harness.paper import reported, scales
from htbench.harness.paper.reported import Reported
from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, by_rows
from htbench.harness.show.status import Status
from htbench.results.compare import paper_errata
from htbench.results.compare.idle_settings import note_idle_settings
from htbench.results.compare.layouts import LAYOUTS
from htbench.results.compare.measured import UNPLANNED, Measured, measure_line
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.quantities import find_quantity, is_decidable
from htbench.results.compare.stats import MIN_SEEDS, SIGNIFICANCE
from htbench.results.compare.view import View
from htbench.results.tables import footnotes, paper
from htbench.results.tables.verdicts import Standing

FULL = scales.SCALES[0]
WITHIN, BETTER, WORSE = "within noise", "better", "worse"
NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE = "no spread", "not run", "other scale", "other hardware"
FAILED = "failed"

_VERDICTS = (WITHIN, BETTER, WORSE, NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE, FAILED)
_RULES = (
    Note("ledger_noise", share=1 - SIGNIFICANCE),
    Note("ledger_no_spread", seeds=MIN_SEEDS, noise=paper_errata.NOISE),
    Note("ledger_scale"),
)


def make_ledger(view: View) -> list[Report]:
    """One report per scale that is shown; full scale if there is none."""
    return [
        _make_full_scale(view) if scale == FULL else _make_miniature(view.ours(scale))
        for scale in view.scales or [FULL]
    ]


def _make_full_scale(view: View) -> Report:
    """A section for each published table, a row for each number."""
    full, *others = map(view.ours, scales.SCALES)
    elsewhere = list(filter(None, others))
    counts: Counter[str] = Counter()
    sections = []
    for name in reported.tables():
        lines = reported.of_table(name)
        notes = {line: paper_errata.note_line(line) for line in lines}
        shared = [note for note in notes[lines[0]] if all(note in row for row in notes.values())]
        rows = []
        for line in lines:
            figure = measure_line(full, line)
            word = judge_line(line, figure, elsewhere)
            counts[word] += 1
            difference = Cell(figure.summary.mean - line.value if figure.summary else None, line.digits)
            slip = [note for note in notes[line] if note not in shared]
            apart = {Column("difference", importance=4): difference}
            rows.append(_make_row(line, figure, line.metric, line.digits, slip, apart, Cell(word)))
        below = tuple(map(paper_errata.make_sentence, shared))
        identity = {"scale": FULL, "published_table": name}
        sections.append(by_rows(rows, title=name, identity=identity, notes=below))
    words = [f"{counts[word]} {word}" for word in _VERDICTS if counts[word]]
    total = Note("ledger_total", numbers=len(reported.everything()), verdicts=words)
    first, *rest = sections
    noted = replace(first, notes=(total, *_RULES, *first.notes))
    sections = [replace(noted, brief=replace(noted, above=(total,))), *rest]  # on a screen it stands above
    return Report("ledger", "every published number beside ours at full scale", sections)


def _make_miniature(our_runs: PaperRuns) -> Report:
    """The same of all numbers that the scale has something for; the judge compares ours of each workload."""
    sections, scale = [], our_runs.scale
    for name, layout in LAYOUTS.items():
        figures = {
            line: measure_line(our_runs, line)
            for line in (reported.of_table(name, scale) if layout.axis != "lr" else ())
            if is_decidable(line) and find_quantity(line)
        }
        planned = {line: figure for line, figure in figures.items() if figure.choice is not None}
        verdicts, ties = paper.judge_figures(layout, our_runs, planned)
        rows = []
        for line, figure in figures.items():
            assert figure.metric is not None
            standing = verdicts.get(line, Standing())
            verdict = standing.verdict
            winner = figure.choice.winner if figure.choice is not None else None
            idle = note_idle_settings(winner.runs[0]) if winner else ()
            rank = Cell(verdict.rank_word if verdict else "", notes=(*standing.notes, *idle))
            kind = verdict.kind.value if verdict else ""
            word = kind if figure.summary else judge_line(line, figure, ())
            slip, metric = paper_errata.note_line(line), figure.metric
            apart = {Column("rank", kind="text", importance=5): rank}
            told = Cell(word, bold=standing.bold)
            rows.append(_make_row(line, figure, metric.label, metric.digits, slip, apart, told))
        if rows:
            below = (*ties, *paper.note_stand_ins(figures))
            identity = {"scale": scale, "published_table": name}
            section = by_rows(rows, title=name, identity=identity, notes=below)
            runs = [run for figure in figures.values() for run in figure.runs]
            sections.append(footnotes.complete_section(section, runs))
    title = f"every published number beside ours at {scale} scale"
    return Report(f"ledger_{scale}", title, sections, notes=footnotes.note_missing_languages(scale))


def _make_row(
    line: Reported,
    figure: Measured,
    metric: str,
    digits: int,
    notes: Sequence[Note],
    apart: Mapping[Column, Cell],
    verdict: Cell,
) -> dict[Column, Cell]:
    """A published number; `apart` says how far ours is from it, or from the best."""
    summary = figure.summary
    if verdict.value == FAILED:
        verdict = replace(verdict, value=f"{FAILED}: {figure.reason or figure.state}")
    return {
        Column("row", kind="text"): Cell(label_line(line)),
        Column("dataset", kind="text"): Cell(line.dataset),
        Column("model", kind="text"): Cell(line.model),
        Column("metric", kind="text", importance=2): Cell(metric),
        Column("published", importance=6): Cell(line.value, line.digits, notes=tuple(notes)),
        Column("ours", kind="summary", importance=6): Cell(
            summary, digits, notes=figure.notes, runs=figure.keys
        ),
        Column("n", importance=3): Cell(summary.n if summary else None),
        **apart,
        Column("verdict", kind="text", importance=6): verdict,
    }


def label_line(line: Reported) -> str:
    """The row of a number, with what its table varies: "htmuon, p=0.1"."""
    varies = line.table.startswith
    parts = [line.row]
    parts += [f"p={line.p:g}"] if line.p is not None and varies("p_grid") else []
    parts += [f"interval {line.interval}"] if line.interval and varies(("interval", "wall")) else []
    parts += [f"lr {line.lr:g}"] if line.lr is not None and varies("lr_grid") else []
    return ", ".join(parts)


def judge_line(line: Reported, figure: Measured, elsewhere: Iterable[PaperRuns]) -> str:
    """One of `_VERDICTS` on a number.

    Args:
        line: the published number.
        figure: ours at full scale.
        elsewhere: the runs at other scales.
    """
    summary = figure.summary
    if summary is None:
        if figure.state not in (UNPLANNED, Status.WAITING, Status.RUNNING):
            return FAILED
        places = [(other, line.at(other.scale).place) for other in elsewhere]
        in_miniature = any(choice.winner for other, place in places for choice in other.choices(place))
        return OTHER_SCALE if in_miniature and figure.state == UNPLANNED else NOT_RUN
    if summary.std is None or summary.n < MIN_SEEDS:
        return NO_SPREAD
    if line.hardware:  # such as "4x A6000"
        number, _, name = line.hardware.partition("x ")
        if any(name not in str(run["machine"]) or run["processes"] != int(number) for run in figure.runs):
            return OTHER_HARDWARE
    from scipy import special

    assert figure.metric is not None
    quantile = float(special.stdtrit(summary.n - 1, 1 - SIGNIFICANCE / 2))
    reach = quantile * summary.std * math.sqrt(1 + 1 / summary.n)
    difference = summary.mean - line.value
    if abs(difference) <= reach or f"{summary.mean:.{line.digits}f}" == line.printed:
        return WITHIN
    return BETTER if (difference > 0) == figure.metric.higher_is_better else WORSE
