"""The table `multipliers`: what a rule is worth in AdamW's tokens."""

from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section, by_rows
from htbench.results.compare.draws import Estimate
from htbench.results.compare.ladder import SECOND, Entry, Ladder
from htbench.results.compare.ladder_points import BASELINE, Guard, Rung
from htbench.results.compare.view import View
from htbench.results.tables import footnotes

# The optimizer's part of the operations of a step of the paper's 60M model, 512 rows of 256 tokens a batch.
AT_60M = {"muon": 0.0151, "htmuon": 0.0094}


def make_table(view: View) -> Report:
    """Every row of every ladder: its loss, its distance to AdamW and Muon, and what it is worth in tokens."""
    sections = [footnotes.complete_section(_make_section(each), view.frame or ()) for each in view.ladders]
    return Report("multipliers", f"how many times the tokens {BASELINE} would need", sections)


# --- multipliers ---


def _make_section(ladder: Ladder) -> Section:
    rows, name = [*map(_make_row, ladder.entries)], ladder.task
    return by_rows(rows, title=name, notes=_note_law(ladder), identity={"ladder": name})


def _make_row(entry: Entry) -> dict[Column, Any]:
    """All that is known of a rung."""
    rung = entry.rung
    return {
        Column("size", kind="text"): rung.model,
        Column("parameters", digits=0, importance=1): rung.parameters,
        Column("tokens_per_parameter", "tok/par", digits=1, importance=10): rung.ratio,
        Column("batch_size", "batch", importance=2): rung.batch,
        Column("optimizer", kind="text", importance=9): rung.optimizer,
        Column("loss", "test loss", digits=4, importance=6): Cell(entry.loss, runs=rung.keys),
        Column("n", importance=1): len(rung.row.values),
        **_list_ends(f"to_{BASELINE}", f"to {BASELINE} (nats)", entry.to_baseline, 4, 1),
        **_list_ends(f"to_{SECOND}", f"to {SECOND} (nats)", entry.to_second, 4, 5),
        **_list_ends("token_multiplier", "tokens x", entry.tokens, 2, 9),
        Column("beyond", kind="text", importance=7): _format_bound(entry.tokens),
        **_list_ends("compute_multiplier", "compute x", entry.compute, 2, 4),
        Column("optimizer_percent", "optimizer's %", digits=1, importance=3): _find_percent(rung),
        **_list_ends("time_multiplier", "time x", entry.time, 2, 1),
        Column("guards", kind="text", importance=8): Cell(
            ", ".join(entry.guards), notes=tuple(_note_guard(guard, entry) for guard in entry.guards)
        ),
    }


def _list_ends(
    name: str, label: str, estimate: Estimate | None, digits: int, importance: int
) -> dict[Column, Any]:
    """An estimate, and each end of its interval."""
    form: dict[str, Any] = {"digits": digits, "importance": importance}
    return {
        Column(name, label, **form): estimate and estimate.value,
        Column(f"{name}_low95", "from", **form): estimate and estimate.low,
        Column(f"{name}_high95", "to", **form): estimate and estimate.high,
    }


def _find_percent(rung: Rung) -> float | None:
    """The optimizer's part of the operations."""
    return None if rung.optimizer_share is None else 100 * rung.optimizer_share


def _format_bound(estimate: Estimate | None) -> str:
    if estimate is None or not (estimate.is_above or estimate.is_below):
        return ""
    return f"> {estimate.most:.2f}" if estimate.is_above else f"< {estimate.least:.2f}"


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
