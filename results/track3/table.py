"""The table `track3`: every result recomputed, each record against the one before, all on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from harness.show.note import Note
from harness.show.report import Cell, Column, Report, Section, by_columns
from results.compare.select import WORKLOAD
from results.compare.stats import MIN_SEEDS, SIGNIFICANCE
from results.compare.summary import finite_values
from results.compare.winners import winners
from results.frames.metrics import PERPLEXITY, published_target
from results.frames.rows import Frame, parts
from results.track3 import verdicts
from results.track3.data import Published, Run
from results.track3.recomputed import Result, committed, pooled
from results.track3.ties import letters
from results.track3.verdicts import ASSUMED_SD, NO_SPREAD, NOT_SHOWN, THRESHOLD, Verdict

NAME, TITLE = "track3", "steps to a loss of 3.28, from the public runs of the nanoGPT optimization benchmark"
OURS = "our runs by the benchmark's rule"
EVERY, RECORDS, SCALE = "every result", "each record against the one before", "all results on one scale"

_DIGITS = 4  # of printed losses and of the rules


def table(shown: bool = True, results: Sequence[Result] | None = None, frame: Frame | None = None) -> Report:
    """The table; without sections if there is nothing to show.

    Args:
        shown: whether the public runs are asked for.
        results: None for those of the committed data.
        frame: the tidy frame of runs of ours; those on the benchmark's data come first.
    """
    found = committed() if results is None else results
    own = [] if frame is None else [part for part in parts(frame, WORKLOAD) if published_target(part)]
    sections = [ours(part) for part in own]
    sections += [every(found), records(found), one_scale(found)] if shown else []
    return Report(NAME, TITLE, sections)


def ours(part: Frame) -> Section:
    """Does each optimizer of a workload end below 3.28, and at which step would it be there?"""
    named = {one.optimizer: _result(one.runs) for one in winners(part)}
    results = list(named.values())
    steps = list(map(verdicts.scaled, results))
    columns: dict[Column, list[Any]] = {
        Column("optimizer", "optimizer", "text"): list(named),
        Column("steps", "steps"): [one.published.steps for one in results],
        Column("val_loss", "validation loss", "summary"): [Cell(one.summary, _DIGITS + 1) for one in results],
        Column("", "n"): [len(one.runs) for one in results],
        **_verdicts(verdicts.below_target(results)),
        Column("steps_to_target", "steps to 3.28", "summary"): [Cell(one, 0) for one in steps],
        Column("ties", "ties", "text"): letters(steps, digits=0),
    }
    notes = (
        Note("track3_ours"),
        Note("track3_ours_rule", threshold=THRESHOLD, sd=ASSUMED_SD),
        Note("track3_test", level=SIGNIFICANCE, seeds=MIN_SEEDS, few=NO_SPREAD, unsure=NOT_SHOWN),
        Note("track3_scale"),
    )
    return _part(OURS, columns, notes)


def _result(rows: Sequence[Mapping[str, Any]]) -> Result:
    """Our runs of one setting as a result of the benchmark, to its five decimals."""
    values = [PERPLEXITY.on_scale(value) for value in finite_values(rows, f"val_{PERPLEXITY.name}")]
    step = int(rows[0]["steps"]) if values else 0
    runs = tuple(Run("", "", step, "", {step: Decimal(f"{value:.5f}")}) for value in values)
    mean = Result(Published(0, step, Decimal(), 0, "", "", ""), runs).mean or Decimal()
    return Result(Published(0, step, mean, max(1, len(runs)), "", "", ""), runs)


def every(results: Sequence[Result]) -> Section:
    """Is what is printed what the runs say, and is the mean below 3.28?"""
    found, printed = verdicts.below_target(results), [result.published for result in results]
    why = [((one.missing,) if one.missing else ()) for one in results]
    columns: dict[Column, list[Any]] = {
        Column("number", "#"): [one.number for one in printed],
        Column("date", "date", "text", importance=2): [one.date for one in printed],
        Column("steps", "steps"): [one.steps for one in printed],
        Column("published_loss", "published loss", importance=4): [
            Cell(float(one.loss), _DIGITS) for one in printed
        ],
        Column("published_n", "published n", importance=3): [one.n for one in printed],
        Column("loss", "loss of the runs", "summary"): [Cell(one.summary, _DIGITS + 1) for one in results],
        Column("", "n"): [len(one.runs) for one in results],
        Column("reproduces", "reproduces", "text"): [Cell("no" if n else "yes", notes=n) for n in why],
        **_verdicts(found),
    }
    notes = (
        Note("track3_origin"),
        Note("track3_runs"),
        Note("track3_reproduces", same=sum(one.reproduces for one in results), results=len(results)),
        Note("track3_rule", threshold=THRESHOLD, sd=ASSUMED_SD),
        Note("track3_test", level=SIGNIFICANCE, seeds=MIN_SEEDS, few=NO_SPREAD, unsure=NOT_SHOWN),
        seeds(results),
        if_pooled(results, found),
    )
    return _part(EVERY, columns, notes)


def seeds(results: Sequence[Result]) -> Note:
    """The spread over seeds that was measured, beside the one that the benchmark's rules assume."""
    summaries = [one.summary for one in results if one.is_judged and one.summary is not None]
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


def _part(title: str, columns: Mapping[Column, list[Any]], notes: Iterable[Note]) -> Section:
    return replace(by_columns(columns, title=title, notes=notes), identity={"part": title})


def _verdicts(found: Sequence[Verdict]) -> dict[Column, list[Any]]:
    """What rule and test say of the public runs, with a footnote if the printed numbers say otherwise."""
    cells = []
    for one in found:
        differs = Note("track3_differs", verdict=_passes(one.published), printed=one.printed)
        notes = (differs,) if one.passes != one.published else ()
        cells.append(Cell("" if one.passes is None else _passes(one.passes), notes=notes))
    return {
        Column("rule", "rule", importance=4): [Cell(one.rule, _DIGITS) for one in found],
        Column("benchmark", "benchmark", "text"): cells,
        Column("p", "p-value (Holm)"): [None if one.p is None else float(f"{one.p:.3g}") for one in found],
        Column("ours", "our test", "text", importance=6): [one.ours for one in found],
    }


def _passes(passes: bool) -> str:
    return "passes" if passes else "fails"


def records(results: Sequence[Result]) -> Section:
    """Is each record better than the one before it?"""
    pairs = verdicts.records(results)
    found, both = verdicts.compare(pairs), [(pair.new, pair.old) for pair in pairs]
    gains = [
        None if verdict.rule is None or pair.gain is None else float(pair.gain)
        for pair, verdict in zip(pairs, found, strict=True)
    ]
    columns: dict[Column, list[Any]] = {
        Column("number", "#"): [new.published.number for new, _ in both],
        Column("steps", "steps"): [new.published.steps for new, _ in both],
        Column("", "n"): [len(new.runs) for new, _ in both],
        Column("before", "before"): [old.published.number for _, old in both],
        Column("steps_before", "its steps", importance=4): [old.published.steps for _, old in both],
        Column("", "its n", importance=4): [len(old.runs) for _, old in both],
        Column("gain", "gain"): [Cell(gain, _DIGITS) for gain in gains],
        **_verdicts(found),
    }
    notes = (
        Note("track3_record"),
        Note("track3_gain"),
        Note("track3_record_rule", threshold=THRESHOLD),
        Note("track3_record_test", level=SIGNIFICANCE),
    )
    return _part(RECORDS, columns, notes)


def one_scale(results: Sequence[Result]) -> Section:
    """The results in the order of the steps that they would need to reach 3.28, with their groups of ties."""
    every_one = list(map(verdicts.scaled, results))
    ties = letters(every_one, digits=0)
    rows = zip(results, every_one, ties, strict=True)
    found = [(result.published, steps, group) for result, steps, group in rows if steps is not None]
    found.sort(key=lambda row: row[1].mean)
    columns: dict[Column, list[Any]] = {
        Column("number", "#"): [printed.number for printed, _, _ in found],
        Column("steps", "published steps"): [printed.steps for printed, _, _ in found],
        Column("steps_to_target", "steps to 3.28", "summary"): [Cell(steps, 0) for _, steps, _ in found],
        Column("", "n"): [steps.n for _, steps, _ in found],
        Column("ties", "ties", "text"): [group for _, _, group in found],
    }
    notes = (Note("track3_scale"), Note("track3_ties", level=SIGNIFICANCE, seeds=MIN_SEEDS))
    return _part(SCALE, columns, notes)
