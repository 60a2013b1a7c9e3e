"""The table `multipliers`: what a rule is worth in AdamW's tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section, by_columns
from htbench.results.compare.draws import Estimate
from htbench.results.compare.ladder import SECOND, Entry, Ladder
from htbench.results.compare.ladder_points import BASELINE, Guard
from htbench.results.compare.view import View
from htbench.results.tables import footnotes

_ENDS = (("_low95", "from", "low"), ("_high95", "to", "high"))
# The optimizer's part of the operations of a step of the paper's 60M model, 512 rows of 256 tokens a batch.
AT_60M = {"muon": 0.0151, "htmuon": 0.0094}


def make_table(view: View) -> Report:
    """Every row of every ladder: its loss, its distance to AdamW and Muon, and what it is worth in tokens."""
    sections = [footnotes.complete_section(_make_section(each), view.frame or ()) for each in view.ladders]
    return Report("multipliers", f"how many times the tokens {BASELINE} would need", sections)


# --- multipliers ---


def _make_section(ladder: Ladder) -> Section:
    entries = ladder.entries
    columns: dict[Column, Iterable[Any]] = {
        Column("size", kind="text"): [entry.rung.model for entry in entries],
        Column("parameters", digits=0): [entry.rung.parameters for entry in entries],
        Column("tokens_per_parameter", "tokens/parameter", digits=1): [entry.rung.ratio for entry in entries],
        Column("batch_size", "batch"): [entry.rung.batch for entry in entries],
        Column("optimizer", kind="text"): [entry.rung.optimizer for entry in entries],
        Column("loss", "test loss", digits=4): [Cell(entry.loss, runs=entry.rung.keys) for entry in entries],
        Column("n"): [len(entry.rung.row.values) for entry in entries],
        **_estimates(f"to_{BASELINE}", f"to {BASELINE} (nats)", [entry.to_baseline for entry in entries], 4),
        **_estimates(f"to_{SECOND}", f"to {SECOND} (nats)", [entry.to_second for entry in entries], 4),
        **_estimates("token_multiplier", "tokens x", [entry.tokens for entry in entries], 2),
        Column("beyond", kind="text"): [_format_bound(entry.tokens) for entry in entries],
        **_estimates("compute_multiplier", "compute x", [entry.compute for entry in entries], 2),
        Column("optimizer_percent", "optimizer's %", digits=1): _list_percents(entries),
        **_estimates("time_multiplier", "time x", [entry.time for entry in entries], 2),
        Column("guards", kind="text"): [
            Cell(", ".join(entry.guards), notes=tuple(_note_guard(guard, entry) for guard in entry.guards))
            for entry in entries
        ],
    }
    identity = {"ladder": ladder.task}
    section = by_columns(columns, title=ladder.task, notes=_note_law(ladder), identity=identity)
    return replace(section, brief=_make_brief(ladder))


def _estimates(
    name: str, label: str, values: Sequence[Estimate | None], digits: int
) -> dict[Column, list[Any]]:
    """A column of estimates, and one for each end of their intervals."""
    columns = {Column(name, label, digits=digits): [estimate and estimate.value for estimate in values]}
    for ending, head, field in _ENDS:
        ends = [None if estimate is None else getattr(estimate, field) for estimate in values]
        columns[Column(name + ending, head, digits=digits)] = ends
    return columns


def _list_percents(entries: Sequence[Entry]) -> list[float | None]:
    """The optimizer's part of the operations."""
    shares = [entry.rung.optimizer_share for entry in entries]
    return [None if share is None else 100 * share for share in shares]


def _make_brief(ladder: Ladder) -> Section:
    """What fits on a screen."""
    entries = ladder.entries
    columns: dict[Column, Iterable[Any]] = {
        Column("size", kind="text"): [entry.rung.model for entry in entries],
        Column("ratio", "tok/par", digits=0, importance=7): [entry.rung.ratio for entry in entries],
        Column("batch", importance=2): [entry.rung.batch for entry in entries],
        Column("optimizer", kind="text", importance=9): [entry.rung.optimizer for entry in entries],
        Column("loss", digits=4, importance=6): [entry.loss for entry in entries],
        Column("to_second", f"to {SECOND} [95 %]", "text", importance=8): [
            _format_estimate(entry.to_second, 4) for entry in entries
        ],
        Column("tokens", "tokens x [95 %]", "text", importance=9): [
            _format_estimate(entry.tokens, 2) for entry in entries
        ],
        Column("compute", "compute x", "text", importance=4): [
            _format_estimate(entry.compute and replace(entry.compute, low=None, high=None), 2)
            for entry in entries
        ],
        Column("optimizer_percent", "opt %", digits=1, importance=3): _list_percents(entries),
        Column("guards", "", "text", importance=7): [", ".join(entry.guards) for entry in entries],
    }
    return by_columns(columns, title=ladder.task, notes=_note_law(ladder))


def _format_estimate(estimate: Estimate | None, digits: int) -> str:
    """ "1.42 [1.20, 1.66]", "> 4.00"; an end beyond what was observed has the sign, too."""
    if estimate is None:
        return ""
    if estimate.value is None:
        return _format_bound(estimate, digits)
    if estimate.low is None and estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    low = f"< {estimate.least:.{digits}f}" if estimate.low is None else f"{estimate.low:.{digits}f}"
    high = f"> {estimate.most:.{digits}f}" if estimate.high is None else f"{estimate.high:.{digits}f}"
    return f"{estimate.value:.{digits}f} [{low}, {high}]"


def _format_bound(estimate: Estimate | None, digits: int = 2) -> str:
    if estimate is None or not (estimate.is_above or estimate.is_below):
        return ""
    return f"> {estimate.most:.{digits}f}" if estimate.is_above else f"< {estimate.least:.{digits}f}"


def _note_law(ladder: Ladder) -> tuple[Note, ...]:
    """What the law is, and how it was checked."""
    notes = [_note_guard(guard) for guard in ladder.guards if guard is not Guard.MISSED]
    check = {} if ladder.check is None else {"miss": abs(ladder.check.misses), "nats": abs(ladder.check.nats)}
    if Guard.MISSED in ladder.guards:
        notes.append(Note("ladder_missed", **check))
    elif ladder.exponent is not None and ladder.law is not None:
        sizes = [
            Note("ladder_size", model=model, floor=floor.value, low=floor.low, high=floor.high)
            for model, floor in ladder.floors.items()
        ]
        ends = {"exponent": ladder.exponent.value, "low": ladder.exponent.low, "high": ladder.exponent.high}
        counts = {"points": ladder.law.points, "unknowns": ladder.law.unknowns}
        notes.append(Note("ladder_law", baseline=BASELINE, **ends, sizes=sizes, **counts))
        if ladder.check is not None:
            notes.append(Note("ladder_checked", **check, effect=ladder.check.effect, baseline=BASELINE))
    notes.append(Note("ladder_method", baseline=BASELINE, second=SECOND))
    return (*notes, Note("ladder_share", shares=[f"{100 * x:.1f} % of {name}" for name, x in AT_60M.items()]))


def _note_guard(guard: Guard, entry: Entry | None = None) -> Note:
    """A guard as a sentence with its figures."""
    sight = None if entry is None else entry.tokens
    ends = {} if sight is None else {"least": sight.least, "most": sight.most}
    return Note(f"guard_{guard.name.lower()}", baseline=BASELINE, **ends)
