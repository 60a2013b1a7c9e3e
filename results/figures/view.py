"""From where a figure of the paper takes its values: one view is one row of panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from harness.paper import reported
from harness.paper.scales import SCALES
from harness.store import Store
from results.compare.ours import Ours
from results.figures.kinds import PUBLISHED, RUNS

BOTH = "both"
SOURCES = (PUBLISHED, RUNS, BOTH)


@dataclass(frozen=True)
class View:
    """The published numbers, our runs at a scale, or both: those at full scale train the same workloads.

    Attributes:
        published: whether the published numbers are shown.
        ours: our runs; None if they are not shown.
        asked: whether published numbers alone are asked for, be they of the paper or not.
    """

    published: bool
    ours: Ours | None = None
    asked: bool = False

    @property
    def store(self) -> Store | None:
        """Where curves and spectra of our runs are; None without runs."""
        return None if self.ours is None else self.ours.store

    @property
    def scale(self) -> str:
        """Whose workloads the panels show."""
        return self.ours.scale if self.ours is not None else "paper"


def views(
    frame: pd.DataFrame | None, store: Store, source: str = BOTH, scales: Sequence[str] | None = None
) -> list[View]:
    """The views of a store.

    Published numbers are shown if they are asked for, and with `both` if something is planned at a scale.

    Args:
        frame: the tidy frame; None for an empty store.
        store: where curves and spectra are.
        source: one of SOURCES.
        scales: those to show, planned or not; None for all that are planned.
    """
    if source == PUBLISHED:
        return [View(published=True, asked=True)]
    found = [
        Ours(frame, scale, store) for scale in SCALES if frame is not None and scale in (scales or SCALES)
    ]
    planned = [ours for ours in found if ours]
    beside = source == BOTH
    rows = [View(beside and ours.scale == "paper", ours) for ours in planned]
    alone = beside and (planned or scales) and not any(row.published for row in rows)
    return [*([View(published=True)] if alone else []), *rows]


def unpublished(figure: str) -> list[str]:
    """The panels of a figure of the paper that are pictures only: the paper has no table of their values."""
    rows = [row for row in reported.rows("figures") if row["figure"] == figure]
    return [row["panels"] for row in rows if not row["data_published"].startswith("yes")]
