"""The ledger of numbers: each of the 329 published ones beside ours at full scale, with a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from harness.paper import reported
from harness.paper.reported import Reported
from results.compare import slips
from results.compare.measured import Measured, measured
from results.compare.ours import Ours
from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Summary
from results.formats.cells import Cell, Column, Section

WITHIN, BETTER, WORSE = "within noise", "better", "worse"
NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE = "no spread", "not run", "other scale", "other hardware"
VERDICTS = (WITHIN, BETTER, WORSE, NO_SPREAD, NOT_RUN, OTHER_SCALE, OTHER_HARDWARE, "failed")

RULES = (
    f"{WITHIN}: the published number lies in the {1 - SIGNIFICANCE:.0%} prediction interval of one more run "
    f"(mean ± t · sd · sqrt(1 + 1/n)), or prints as our mean; {BETTER}, {WORSE}: our mean is so beyond it. "
    f"One cell in 20 falls outside by chance.",
    f"{NO_SPREAD}: ours has fewer than {MIN_SEEDS} seeds. Every published number is a single run; ten reruns "
    f"in the paper suggest an sd of about {slips.NOISE:g} perplexity, which is no substitute for seeds of "
    f"one's own.",
    f"{OTHER_SCALE}: the store has runs of it in miniature only, whose numbers are others. {OTHER_HARDWARE}: "
    f"times on other machines than the published ones are never compared.",
)
_UNTRIED = ("unplanned", "waiting", "running")


def sections(ours: Ours, elsewhere: Iterable[Ours]) -> list[Section]:
    """One section per published table, one row per number.

    Args:
        ours: the runs at full scale.
        elsewhere: the runs at other scales.
    """
    others = list(elsewhere)
    return [_section(name, ours, others) for name in reported.tables()]


def verdict(line: Reported, found: Measured, in_miniature: bool) -> str:
    """The word for one number.

    Args:
        line: the published number.
        found: ours at full scale.
        in_miniature: whether the store has runs of it at another scale.
    """
    summary = found.summary
    if summary is None:
        if found.state in _UNTRIED:
            return OTHER_SCALE if in_miniature and found.state == "unplanned" else NOT_RUN
        return f"failed: {found.reason or found.state}"
    if summary.std is None or summary.n < MIN_SEEDS:
        return NO_SPREAD
    if line.hardware and not _on_same_hardware(line.hardware, found):
        return OTHER_HARDWARE
    return _compared(line, found, summary)


def _compared(line: Reported, found: Measured, ours: Summary) -> str:
    assert found.metric is not None and ours.std is not None
    from scipy import stats

    reach = float(stats.t.ppf(1 - SIGNIFICANCE / 2, ours.n - 1)) * ours.std * math.sqrt(1 + 1 / ours.n)
    difference = ours.mean - line.value
    if abs(difference) <= reach or f"{ours.mean:.{line.digits}f}" == line.printed:
        return WITHIN
    return BETTER if (difference > 0) == found.metric.higher_is_better else WORSE


def _on_same_hardware(published: str, found: Measured) -> bool:
    """Whether all runs were on what the paper names, such as "4x A6000"."""
    number, _, name = published.partition("x ")
    return all(name in str(run["machine"]) and run["processes"] == int(number) for run in found.runs)


# --- the section of a table ---


def _section(name: str, ours: Ours, others: list[Ours]) -> Section:
    lines = reported.of_table(name)
    notes = {line: slips.of_line(line) for line in lines}
    shared = [note for note in notes[lines[0]] if all(note in own for own in notes.values())]
    columns = [
        Column("row", "row", "text"),
        Column("dataset", "data", "text"),
        Column("model", "model", "text"),
        Column("metric", "metric", "text"),
        Column("published", "published"),
        Column("ours", "ours", "summary"),
        Column("n", "n"),
        Column("difference", "difference"),
        Column("verdict", "verdict", "text"),
    ]
    rows = [_row(line, ours, others, [note for note in notes[line] if note not in shared]) for line in lines]
    return Section(
        name,
        {"scale": ours.scale, "published_table": name},
        columns,
        rows,
        notes=tuple(map(_sentence, shared)),
    )


def _row(line: Reported, ours: Ours, others: list[Ours], notes: list[str]) -> list[Cell]:
    found = measured(ours, line)
    in_miniature = any(choice.winner is not None for other in others for choice in other.of(line))
    summary = found.summary
    return [
        Cell(label(line)),
        Cell(line.dataset),
        Cell(line.model),
        Cell(line.metric),
        Cell(line.value, line.digits, notes=tuple(notes)),
        Cell(summary, line.digits, notes=found.notes, runs=found.keys),
        Cell(summary.n if summary else None),
        Cell(summary.mean - line.value if summary else None, line.digits),
        Cell(verdict(line, found, in_miniature)),
    ]


def label(line: Reported) -> str:
    """The row of a number, with what its table varies: "htmuon, p=0.1"."""
    setting = line.setting
    parts = [line.row]
    parts += [f"p={setting.p:g}"] if setting.p is not None and line.table.startswith("p_grid") else []
    parts += (
        [f"interval {setting.interval}"]
        if line.table.startswith(("interval", "wall")) and setting.interval
        else []
    )
    parts += [f"lr {line.lr:g}"] if line.lr is not None and line.table.startswith("lr_grid") else []
    return ", ".join(parts)


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def tally(found: Iterable[Section]) -> Mapping[str, int]:
    """How many rows have each verdict; failures together."""
    words = [str(row[-1].value).partition(":")[0] for section in found for row in section.rows]
    return {word: words.count(word) for word in VERDICTS if word in words}
