"""The figure `muon_ns_vs_svd`: Muon by Newton-Schulz iterations beside Muon by an exact SVD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.paper.reported import Reported
from results.compare.measured import Measured
from results.figures import paper_words as words
from results.figures import updates
from results.figures.kinds import BarPanel, CurvePanel, Level, Series
from results.figures.paper_bars import MODELS, bar_panel
from results.figures.paper_values import at_published_rate, completed, lines, ours, unpublished
from results.figures.style import display_name
from results.figures.view import View
from results.frames.spectra import Spectra, of_runs

_RATES = {"llama-60m": 0.03, "llama-135m": 0.02}  # of figures.csv
_SHOWN = "llama-60m"  # whose updates are shown


def muon_ns_vs_svd(view: View) -> list[BarPanel | CurvePanel]:
    """Perplexity of both, and the singular values of their updates. Nothing of it is published as data."""
    if view.ours is None:
        return []
    own = [line for model in MODELS for line in _lines(model)]
    found = [(line, at_published_rate(view, line, _RATES[line.model])) for line in own]
    rates = ", ".join(f"{rate:g} ({words.word(model)})" for model, rate in _RATES.items())
    how = f"lr {rates}" if view.scale == "paper" else "each at its best lr"
    bars = [(words.model_word(view, "c4", line.model), line, ours(one)) for line, one in found]
    shown = [(line, one) for line, one in found if line.model == _SHOWN]
    return [*bar_panel("a", "Newton-Schulz or SVD", view, bars, how=how), *_updates(view, shown)]


def _lines(model: str) -> list[Reported]:
    (muon,) = lines("main_result", "c4", model, ["muon"])
    return [muon, unpublished(muon, "muon_svd")]


def _updates(view: View, found: Sequence[tuple[Reported, Measured]]) -> list[CurvePanel]:
    """A panel for each of the two, with the same matrices and steps."""
    assert view.store is not None
    runs = {line.setting.optimizer: of_runs(completed(one), view.store) for line, one in found}
    shape = updates.largest_shape(one for own in runs.values() for one in own)
    panels = []
    for letter, (optimizer, own) in zip("bc", runs.items(), strict=True):
        panels += _update_panel(view, letter, optimizer, own, shape)
    return _on_one_axis(panels)


def _on_one_axis(panels: Sequence[CurvePanel]) -> list[CurvePanel]:
    """The same limits for all: alone, an axis of all ones would show its rounding errors only."""
    every = [point for panel in panels for one in panel.series for point in one.points]
    highest = max((point.high for point in every if point.high is not None), default=1.0)
    return [replace(panel, y_limits=(0.0, 1.05 * max(1.0, highest)), y_log=False) for panel in panels]


def _update_panel(
    view: View, letter: str, optimizer: str, runs: Sequence[Spectra], shape: updates.Shape
) -> list[CurvePanel]:
    series = []
    for number, step in enumerate(updates.steps(runs)):
        found = updates.matrices(runs, step, shape)
        if found:
            points = updates.points(found, runs)
            series.append(Series(optimizer, points, label=f"step {step}", variant=number))
    if not series:
        return []
    which = f"matrices {shape[0]} x {shape[1]} of {words.workload(view, 'c4', _SHOWN)}"
    how = (
        f"mean and range over matrices and {len(runs)} seeds"
        if len(runs) > 1
        else "mean and range over matrices"
    )
    subtitle = "\n".join([words.source(view), which, how])
    title = words.title(letter, f"{display_name(optimizer)} updates")
    levels = [Level("", "all ones", 1.0)]
    return [CurvePanel(title, subtitle, updates.AXIS, updates.QUANTITY, series, levels, marks=False)]
