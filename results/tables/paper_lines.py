"""The cells of a paper's table at a scale, each as the published number that it stands beside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from harness.paper import experiments
from harness.paper.reported import Reported
from harness.store.points import SEARCH
from results.compare.ours import Ours
from results.compare.quantities import quantity
from results.tables.layouts import Layout

_NOT_PRINTED = ""


def at_scale(layout: Layout, lines: Iterable[Reported], ours: Ours) -> list[Reported]:
    """The published numbers that a scale has runs for, and further cells that are not printed in the paper.

    In miniature a grid has other learning rates. A column "tuned p" has all values of p at once.
    """
    shown = [line for line in lines if quantity(line, ours.scale) is not None]
    if layout.axis == "lr" and ours.scale != "paper":
        shown = [own for line in _without_rates(shown) for own in _at_planned_rates(line, ours)]
    return shown + (_with_tuned_p(shown) if layout.tuned_p else [])


def _without_rates(lines: Iterable[Reported]) -> list[Reported]:
    return list(dict.fromkeys(replace(line, lr=None, printed=_NOT_PRINTED) for line in lines))


def _at_planned_rates(line: Reported, ours: Ours) -> list[Reported]:
    """A cell per learning rate of the plan; one without a rate if nothing is planned."""
    runs = ours.runs(experiments.place(line, ours.scale))
    rates = sorted(float(rate) for rate in runs.loc[runs["stage"] == SEARCH, "lr"].dropna().unique())
    return [replace(line, lr=rate) for rate in rates] or [line]


def _with_tuned_p(lines: Iterable[Reported]) -> list[Reported]:
    """A cell per optimizer and workload whose place leaves p open. Deliberate reruns don't compete."""
    return list(
        dict.fromkeys(
            replace(line, setting=replace(line.setting, p=None, replica=""), printed=_NOT_PRINTED)
            for line in lines
            if line.setting.p is not None
        )
    )


def runs(lines: Iterable[Reported], ours: Ours) -> pd.DataFrame:
    """The rows of the frame at the places of some cells, each once."""
    places = dict.fromkeys(experiments.place(line, ours.scale) for line in lines)
    found = pd.concat([ours.runs(place) for place in places])
    return found[~found.index.duplicated()]
