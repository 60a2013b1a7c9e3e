"""The table `track3`: every result recomputed, each record against the one before, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from harness.show.note import text
from harness.show.report import Cell, Column, Report, Section
from results.compare.stats import Sample, summarize
from results.track3 import notes, verdicts
from results.track3.recomputed import Result, committed
from results.track3.verdicts import Pair, Verdict

NAME, TITLE = "track3", "steps to a loss of 3.28, from the public runs of the nanoGPT optimization benchmark"
EVERY, RECORDS, SCALE = "every result", "each record against the one before", "all results on one scale"

_DIGITS = 4  # of printed losses and of the rules
_P = Column("p", "p (Holm)")
_OURS = Column("ours", "our test", "text")
_RULE = Column("rule", "rule")
_BENCHMARK = Column("benchmark", "benchmark", "text")


def table(shown: bool = True, results: Sequence[Result] | None = None) -> Report:
    """The table; without sections if it is not shown.

    Args:
        shown: whether it is asked for.
        results: None for those of the committed data.
    """
    found = committed() if results is None else results
    sections = [every(found), records(found), one_scale(found)] if shown else []
    return Report(NAME, TITLE, sections)


# --- every result ---


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
        _RULE,
        _BENCHMARK,
        _P,
        _OURS,
    ]
    found = verdicts.below_target(results)
    rows = [_result(*one) for one in zip(results, found, strict=True)]
    return Section(
        EVERY, {"part": EVERY}, columns, rows, notes=tuple(map(text, notes.of_results(results, found)))
    )


def _result(result: Result, verdict: Verdict) -> list[Cell]:
    printed = result.published
    missing = (text(result.missing),) if result.missing else ()
    return [
        Cell(printed.number),
        Cell(printed.date),
        Cell(printed.steps),
        Cell(float(printed.loss), _DIGITS),
        Cell(printed.n),
        Cell(result.summary, _DIGITS + 1),
        Cell(len(result.runs)),
        Cell("no" if missing else "yes", notes=missing),
        *_verdict(verdict),
    ]


def _verdict(one: Verdict) -> list[Cell]:
    """What rule and test say of the public runs, with a footnote if the printed numbers say otherwise."""
    differs = f"by the printed numbers it {_passes(one.published)}: {one.printed:.{_DIGITS}f}"
    known = one.passes is not None
    return [
        Cell(one.rule, _DIGITS),
        Cell(
            _passes(bool(one.passes)) if known else "",
            notes=(text(differs),) if one.passes != one.published else (),
        ),
        Cell(None if one.p is None else float(f"{one.p:.3g}")),
        Cell(one.ours),
    ]


def _passes(passes: bool) -> str:
    return "passes" if passes else "fails"


# --- records ---


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
        _RULE,
        _BENCHMARK,
        _P,
        _OURS,
    ]
    pairs = verdicts.records(results)
    rows = [_record(*one) for one in zip(pairs, verdicts.compare(pairs), strict=True)]
    return Section(RECORDS, {"part": RECORDS}, columns, rows, notes=tuple(map(text, notes.of_records())))


def _record(pair: Pair, verdict: Verdict) -> list[Cell]:
    known = verdict.rule is not None and pair.gain is not None
    return [
        *_place(pair.new),
        *_place(pair.old),
        Cell(float(pair.gain) if known and pair.gain is not None else None, _DIGITS),
        *_verdict(verdict),
    ]


def _place(result: Result) -> list[Cell]:
    return [Cell(result.published.number), Cell(result.published.steps), Cell(len(result.runs))]


# --- one scale ---


def one_scale(results: Sequence[Result]) -> Section:
    """The results in the order of the steps that they would need to reach 3.28, with their groups of ties."""
    columns = [
        Column("number", "#"),
        Column("steps", "published steps"),
        Column("steps_to_target", "steps to 3.28", "summary"),
        Column("", "n"),
        Column("ties", "ties", "text"),
    ]
    samples = [verdicts.scaled(result) for result in results]
    groups = verdicts.ranking(results).groups
    found = [one for one in zip(results, samples, groups, strict=True) if one[1] is not None]
    found.sort(key=lambda one: one[1].mean if one[1] else 0)
    rows = [_scaled(result, sample, group) for result, sample, group in found if sample is not None]
    return Section(SCALE, {"part": SCALE}, columns, rows, notes=tuple(map(text, notes.OF_SCALE)))


def _scaled(result: Result, sample: Sample, group: str) -> list[Cell]:
    published = result.published
    return [
        Cell(published.number),
        Cell(published.steps),
        Cell(summarize(list(sample.values.values())), 0),
        Cell(len(sample.values)),
        Cell(group),
    ]
