"""From where a figure of the paper takes its values: one view is one row of panels."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.paper import reported
from harness.store import Store
from results.compare.view import BOTH, SOURCES
from results.compare.view import Side as View
from results.compare.view import View as Shown

__all__ = ["BOTH", "SOURCES", "View", "unpublished", "views"]


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
    sides = Shown(frame, source, scales, store).sides
    return [
        side if side.ours is None or side.ours else View(published=True)
        for side in sides
        if side.published or side.ours
    ]


def unpublished(figure: str) -> list[str]:
    """The panels of a figure of the paper that are pictures only: the paper has no table of their values."""
    rows = [row for row in reported.rows("figures") if row["figure"] == figure]
    return [row["panels"] for row in rows if not row["data_published"].startswith("yes")]
