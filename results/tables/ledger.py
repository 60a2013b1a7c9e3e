"""The ledger as tables, so that all formats come from the code of every other table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from harness.paper import reported, scales
from harness.store import Store
from results.compare.ours import Ours
from results.formats.cells import Section, Table
from results.tables import ledger_claims as claims
from results.tables import ledger_numbers as numbers

FULL = scales.SCALES[0]


def ledger(frame: pd.DataFrame, store: Store, wanted: Sequence[str] = ()) -> list[Table]:
    """One table per scale: published numbers at full scale, claims at the others.

    Args:
        frame: the tidy frame of the whole store.
        store: where the curves and spectra are.
        wanted: scales; none means those that the store has planned, or full scale if it has none.
    """
    runs = {scale: Ours(frame, scale, store) for scale in scales.SCALES}
    planned = [scale for scale, ours in runs.items() if ours]
    return [
        _numbers(runs) if scale == FULL else _claims(runs[scale]) for scale in wanted or planned or [FULL]
    ]


def _numbers(runs: dict[str, Ours]) -> Table:
    found = numbers.sections(runs[FULL], [ours for scale, ours in runs.items() if scale != FULL and ours])
    counts = ", ".join(f"{n} {word}" for word, n in numbers.tally(found).items())
    total = f"{len(reported.everything())} published numbers: {counts}."
    return Table(
        "ledger", "every published number beside ours at full scale", _noted(found, total, numbers.RULES)
    )


def _claims(ours: Ours) -> Table:
    tested = claims.examine(ours)
    total = claims.summary(tested, ours.scale)
    found = _noted(claims.sections(tested, ours.scale), total, claims.RULES)
    return Table(
        f"ledger_{ours.scale}", f"every ordering that the paper states, at {ours.scale} scale", found
    )


def _noted(sections: list[Section], total: str, rules: tuple[str, ...]) -> list[Section]:
    """The sections, with the total and the rules under the first one."""
    first, *rest = sections
    return [replace(first, notes=(total, *rules, *first.notes)), *rest]
