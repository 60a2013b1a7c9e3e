"""The table `multipliers`: what a rule is worth in AdamW's tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section, by_columns
from htbench.results.compare.draws import Estimate
from htbench.results.compare.ladder import SECOND, Entry, Ladder
from htbench.results.compare.rungs import BASELINE, Guard
from htbench.results.compare.view import View
from htbench.results.tables import footnotes

_ENDS = (("_low95", "from", "low"), ("_high95", "to", "high"))
# The optimizer's part of the operations of a step of the paper's 60M model, 512 rows of 256 tokens a batch.
AT_60M = {"muon": 0.0151, "htmuon": 0.0094}


def multipliers(view: View) -> Report:
    """Every row of every ladder: its loss, its distance to AdamW and Muon, and what it is worth in tokens."""
    sections = [footnotes.complete(_multipliers(own), view.frame or ()) for own in view.ladders]
    return Report("multipliers", f"how many times the tokens {BASELINE} would need", sections)


# --- multipliers ---


def _multipliers(own: Ladder) -> Section:
    entries = own.entries
    columns: dict[Column, Iterable[Any]] = {
        Column("size", kind="text"): [one.rung.model for one in entries],
        Column("parameters", digits=0): [one.rung.parameters for one in entries],
        Column("tokens_per_parameter", "tokens/parameter", digits=1): [one.rung.ratio for one in entries],
        Column("batch_size", "batch"): [one.rung.batch for one in entries],
        Column("optimizer", kind="text"): [one.rung.optimizer for one in entries],
        Column("loss", "test loss", digits=4): [Cell(one.loss, runs=one.rung.keys) for one in entries],
        Column("n"): [len(one.rung.row.values) for one in entries],
        **_numbers(f"to_{BASELINE}", f"to {BASELINE} (nats)", [one.to_baseline for one in entries], 4),
        **_numbers(f"to_{SECOND}", f"to {SECOND} (nats)", [one.to_second for one in entries], 4),
        **_numbers("token_multiplier", "tokens x", [one.tokens for one in entries], 2),
        Column("beyond", kind="text"): [_beyond(one.tokens) for one in entries],
        **_numbers("compute_multiplier", "compute x", [one.compute for one in entries], 2),
        Column("optimizer_percent", "optimizer's %", digits=1): _percents(entries),
        **_numbers("time_multiplier", "time x", [one.time for one in entries], 2),
        Column("guards", kind="text"): [
            Cell(", ".join(one.guards), notes=tuple(_guard(guard, one) for guard in one.guards))
            for one in entries
        ],
    }
    identity = {"ladder": own.task}
    section = replace(by_columns(columns, title=own.task, notes=_notes(own)), identity=identity)
    return replace(section, brief=_brief(own))


def _numbers(
    name: str, label: str, values: Sequence[Estimate | None], digits: int
) -> dict[Column, list[Any]]:
    """A column of estimates, and one for each end of their intervals."""
    columns = {Column(name, label, digits=digits): [own and own.value for own in values]}
    for ending, head, field in _ENDS:
        ends = [None if own is None else getattr(own, field) for own in values]
        columns[Column(name + ending, head, digits=digits)] = ends
    return columns


def _percents(entries: Sequence[Entry]) -> list[float | None]:
    """The optimizer's part of the operations."""
    shares = [one.rung.optimizer_share for one in entries]
    return [None if share is None else 100 * share for share in shares]


def _brief(own: Ladder) -> Section:
    """What fits on a screen."""
    entries = own.entries
    columns: dict[Column, Iterable[Any]] = {
        Column("size", kind="text"): [one.rung.model for one in entries],
        Column("ratio", "tok/par", digits=0, importance=7): [one.rung.ratio for one in entries],
        Column("batch", importance=2): [one.rung.batch for one in entries],
        Column("optimizer", kind="text", importance=9): [one.rung.optimizer for one in entries],
        Column("loss", digits=4, importance=6): [one.loss for one in entries],
        Column("to_second", f"to {SECOND} [95 %]", "text", importance=8): [
            _words(one.to_second, 4) for one in entries
        ],
        Column("tokens", "tokens x [95 %]", "text", importance=9): [_words(one.tokens, 2) for one in entries],
        Column("compute", "compute x", "text", importance=4): [
            _words(one.compute and replace(one.compute, low=None, high=None), 2) for one in entries
        ],
        Column("optimizer_percent", "opt %", digits=1, importance=3): _percents(entries),
        Column("guards", "", "text", importance=7): [", ".join(one.guards) for one in entries],
    }
    return by_columns(columns, title=own.task, notes=_notes(own))


def _words(own: Estimate | None, digits: int) -> str:
    """ "1.42 [1.20, 1.66]", "> 4.00"; an end beyond what was observed has the sign, too."""
    if own is None:
        return ""
    if own.value is None:
        return _beyond(own, digits)
    if own.low is None and own.high is None:
        return f"{own.value:.{digits}f}"
    low = f"< {own.least:.{digits}f}" if own.low is None else f"{own.low:.{digits}f}"
    high = f"> {own.most:.{digits}f}" if own.high is None else f"{own.high:.{digits}f}"
    return f"{own.value:.{digits}f} [{low}, {high}]"


def _beyond(own: Estimate | None, digits: int = 2) -> str:
    if own is None or not (own.is_above or own.is_below):
        return ""
    return f"> {own.most:.{digits}f}" if own.is_above else f"< {own.least:.{digits}f}"


def _notes(own: Ladder) -> tuple[Note, ...]:
    """What the law is, and how it was checked."""
    notes = [_guard(guard) for guard in own.guards if guard is not Guard.MISSED]
    check = {} if own.check is None else {"miss": abs(own.check.misses), "nats": abs(own.check.nats)}
    if Guard.MISSED in own.guards:
        notes.append(Note("ladder_missed", **check))
    elif own.exponent is not None and own.law is not None:
        sizes = [
            Note("ladder_size", model=model, floor=floor.value, low=floor.low, high=floor.high)
            for model, floor in own.floors.items()
        ]
        ends = {"exponent": own.exponent.value, "low": own.exponent.low, "high": own.exponent.high}
        counts = {"points": own.law.points, "unknowns": own.law.unknowns}
        notes.append(Note("ladder_law", baseline=BASELINE, **ends, sizes=sizes, **counts))
        if own.check is not None:
            notes.append(Note("ladder_checked", **check, effect=own.check.effect, baseline=BASELINE))
    notes.append(Note("ladder_method", baseline=BASELINE, second=SECOND))
    return (*notes, Note("ladder_share", shares=[f"{100 * x:.1f} % of {name}" for name, x in AT_60M.items()]))


def _guard(guard: Guard, one: Entry | None = None) -> Note:
    """A guard as a sentence with its figures."""
    sight = None if one is None else one.tokens
    ends = {} if sight is None else {"least": sight.least, "most": sight.most}
    return Note(f"guard_{guard.name.lower()}", baseline=BASELINE, **ends)
