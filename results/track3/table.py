"""The table `track3`: every result recomputed, each record against the one before, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from harness.show.note import Note
from harness.show.report import Cell, Column, Report, Section
from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, summarize
from results.track3 import verdicts
from results.track3.recomputed import Result, committed, pooled
from results.track3.verdicts import ASSUMED_SD, NO_SPREAD, NOT_SHOWN, THRESHOLD, Verdict

NAME, TITLE = "track3", "steps to a loss of 3.28, from the public runs of the nanoGPT optimization benchmark"
EVERY, RECORDS, SCALE = "every result", "each record against the one before", "all results on one scale"

_DIGITS = 4  # of printed losses and of the rules
_VERDICT = (
    Column("rule", "rule"),
    Column("benchmark", "benchmark", "text"),
    Column("p", "p (Holm)"),
    Column("ours", "our test", "text"),
)


def table(shown: bool = True, results: Sequence[Result] | None = None) -> Report:
    """The table; without sections if it is not shown.

    Args:
        shown: whether it is asked for.
        results: None for those of the committed data.
    """
    found = committed() if results is None else results
    sections = [every(found), records(found), one_scale(found)] if shown else []
    return Report(NAME, TITLE, sections)


def every(results: Sequence[Result]) -> Section:
    """Is what is printed what the runs say, and is the mean below 3.28?"""
    columns = [
        Column("number", "#"),
        Column("date", "date", "text"),
        Column("steps", "steps"),
        Column("published_loss", "published loss"),
        Column("published_n", "published n"),
        Column("loss", "loss of the runs", "summary"),
        Column("", "n"),
        Column("reproduces", "reproduces", "text"),
        *_VERDICT,
    ]
    found = verdicts.below_target(results)
    rows = []
    for result, verdict in zip(results, found, strict=True):
        printed, missing = result.published, result.missing
        cells = [printed.number, printed.date, printed.steps]
        rows.append(
            [
                *map(Cell, cells),
                Cell(float(printed.loss), _DIGITS),
                Cell(printed.n),
                Cell(result.summary, _DIGITS + 1),
                Cell(len(result.runs)),
                Cell("no" if missing else "yes", notes=(missing,) if missing else ()),
                *_verdict(verdict),
            ]
        )
    notes = (
        Note("track3_origin"),
        Note("track3_runs"),
        Note("track3_reproduces", same=sum(one.reproduces for one in results), results=len(results)),
        Note("track3_rule", threshold=THRESHOLD, sd=ASSUMED_SD),
        Note("track3_test", level=SIGNIFICANCE, seeds=MIN_SEEDS, few=NO_SPREAD, unsure=NOT_SHOWN),
        seeds(results),
        if_pooled(results, found),
    )
    return Section(EVERY, {"part": EVERY}, columns, rows, notes=notes)


def seeds(results: Sequence[Result]) -> Note:
    """The spread over seeds that was measured, beside the one that the benchmark's rules assume."""
    summaries = [one.summary for one in results if one.sample is not None and one.summary is not None]
    known = [pooled([one]) for one in summaries if one.n >= MIN_SEEDS]
    if not known:
        return Note("track3_no_spread", seeds=MIN_SEEDS)
    shared = pooled(summaries)
    apart = sum(not one.low <= ASSUMED_SD <= one.high for one in known)
    numbers = {"sd": shared.sd, "low": shared.low, "high": shared.high, "assumed": ASSUMED_SD}
    return Note("track3_spread", results=len(known), seeds=MIN_SEEDS, **numbers, apart=apart)


def if_pooled(results: Sequence[Result], found: Sequence[Verdict]) -> Note:
    """What our test would say if the spread of all results were that of each."""
    both = zip(results, found, strict=True)
    unsure = {result.published.number for result, verdict in both if verdict.ours == NOT_SHOWN}
    below = unsure & verdicts.below_if_pooled(results)
    return Note("track3_if_pooled", below=len(below), unsure=len(unsure), verdict=NOT_SHOWN)


def _verdict(one: Verdict) -> list[Cell]:
    """What rule and test say of the public runs, with a footnote if the printed numbers say otherwise."""
    differs = Note("track3_differs", verdict=_passes(one.published), printed=one.printed)
    notes = (differs,) if one.passes != one.published else ()
    return [
        Cell(one.rule, _DIGITS),
        Cell("" if one.passes is None else _passes(one.passes), notes=notes),
        Cell(None if one.p is None else float(f"{one.p:.3g}")),
        Cell(one.ours),
    ]


def _passes(passes: bool) -> str:
    return "passes" if passes else "fails"


def records(results: Sequence[Result]) -> Section:
    """Is each record better than the one before it?"""
    columns = [
        Column("number", "#"),
        Column("steps", "steps"),
        Column("", "n"),
        Column("before", "before"),
        Column("steps_before", "its steps"),
        Column("", "its n"),
        Column("gain", "gain"),
        *_VERDICT,
    ]
    pairs = verdicts.records(results)
    rows = []
    for pair, verdict in zip(pairs, verdicts.compare(pairs), strict=True):
        gain = None if verdict.rule is None or pair.gain is None else float(pair.gain)
        places = [
            Cell(value)
            for one in (pair.new, pair.old)
            for value in (one.published.number, one.published.steps, len(one.runs))
        ]
        rows.append([*places, Cell(gain, _DIGITS), *_verdict(verdict)])
    notes = (
        Note("track3_record"),
        Note("track3_gain"),
        Note("track3_record_rule", threshold=THRESHOLD),
        Note("track3_record_test", level=SIGNIFICANCE),
    )
    return Section(RECORDS, {"part": RECORDS}, columns, rows, notes=notes)


def one_scale(results: Sequence[Result]) -> Section:
    """The results in the order of the steps that they would need to reach 3.28, with their groups of ties."""
    columns = [
        Column("number", "#"),
        Column("steps", "published steps"),
        Column("steps_to_target", "steps to 3.28", "summary"),
        Column("", "n"),
        Column("ties", "ties", "text"),
    ]
    samples = map(verdicts.scaled, results)
    every_one = zip(results, samples, verdicts.ranking(results).groups, strict=True)
    found = [(one.published, sample, group) for one, sample, group in every_one if sample is not None]
    rows = []
    for printed, sample, group in sorted(found, key=lambda one: one[1].mean):
        steps = Cell(summarize(list(sample.values.values())), 0)
        number = Cell(printed.number)
        rows.append([number, Cell(printed.steps), steps, Cell(len(sample.values)), Cell(group)])
    notes = (Note("track3_scale"), Note("track3_ties", level=SIGNIFICANCE, seeds=MIN_SEEDS))
    return Section(SCALE, {"part": SCALE}, columns, rows, notes=notes)
