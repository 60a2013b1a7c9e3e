"""The data of the spectral figures of any sweeps, from what the winner's replicas have recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from harness.store import Store
from results.compare.select import OPTIMIZER, choose
from results.compare.winners import over_seeds
from results.figures import updates
from results.figures.kinds import BarPanel, CurvePanel, LayerPanel, Level, Series
from results.figures.layers import (
    NORMS,
    Found,
    first_weights,
    layer_panel,
    mean_bars,
    method,
    seeds,
    with_weights,
)
from results.figures.panels import titles, workloads
from results.frames.spectra import Row, of_winner


def alpha_layers(frame: pd.DataFrame, store: Store) -> list[LayerPanel]:
    """Alpha of each layer."""
    return [_layers(part, found, "alpha") for part, found in _with_weights(frame, store)]


def alpha_kinds(frame: pd.DataFrame, store: Store) -> list[LayerPanel]:
    """Alpha of each layer, a panel for each kind of layer, where a model has several kinds."""
    return [
        _layers(part, found, "alpha", kind)
        for part, found in _with_weights(frame, store)
        for kind in _kinds(first_weights(found))
    ]


def norms(frame: pd.DataFrame, store: Store) -> list[LayerPanel]:
    """Spectral and Frobenius norm of each layer."""
    return [_layers(part, found, name) for part, found in _with_weights(frame, store) for name in NORMS]


def alpha_bars(frame: pd.DataFrame, store: Store) -> list[BarPanel]:
    """Mean alpha of each optimizer over the layers that are sound in all of its and the others' runs."""
    panels = []
    for part, found in _with_weights(frame, store):
        bars, counted = mean_bars(found)
        if bars:
            how = f"{over_seeds(seeds(found), 'mean and sd')}, {method(found)}"
            said = "\n".join(filter(None, [titles(part)[1], how, counted]))
            panels.append(BarPanel(titles(part)[0], said, "mean alpha", bars))
    return panels


def update_spectra(frame: pd.DataFrame, store: Store) -> list[CurvePanel]:
    """Singular values of the updates: a panel for each workload and step, of the matrices of one shape."""
    panels = []
    for part, found in _of_winners(frame, store):
        every = [one for own in found.values() for one in own]
        shape = updates.largest_shape(every)
        for step in updates.steps(every):
            panels += _update_panel(part, found, step, shape)
    return panels


# --- one workload ---


def _of_winners(frame: pd.DataFrame, store: Store) -> Iterator[tuple[pd.DataFrame, Found]]:
    for part in workloads(frame):
        found = {
            str(choice.fixed["optimizer"]): of_winner(choice, store) for choice in choose(part, OPTIMIZER)
        }
        if any(found.values()):
            yield part, {name: own for name, own in found.items() if own}


def _with_weights(frame: pd.DataFrame, store: Store) -> Iterator[tuple[pd.DataFrame, Found]]:
    for part, found in _of_winners(frame, store):
        measured = with_weights(found)
        if measured:
            yield part, measured


def _kinds(layers: Mapping[str, Row]) -> list[str]:
    kinds = list(dict.fromkeys(str(row["kind"]) for row in layers.values()))
    return kinds if len(kinds) > 1 else []


def _layers(part: pd.DataFrame, found: Found, column: str, kind: str = "") -> LayerPanel:
    title, setting = titles(part)
    return layer_panel(", ".join(filter(None, [title, kind])), [setting], found, column, kind)


def _update_panel(part: pd.DataFrame, found: Found, step: int, shape: updates.Shape) -> list[CurvePanel]:
    values = {name: updates.matrices(own, step, shape) for name, own in found.items()}
    values = {name: own for name, own in values.items() if own}
    if not values:
        return []
    title, setting = titles(part)
    most = max(map(len, values.values()))
    runs = max(map(len, found.values()))
    how = f"{updates.said(step, range(most), runs, shape)}, {over_seeds(seeds(found))}"
    series = [Series(name, updates.points(own, found[name])) for name, own in values.items()]
    subtitle = "\n".join(filter(None, [setting, how]))
    one = [Level("", "all ones", 1.0)]
    return [CurvePanel(title, subtitle, updates.AXIS, updates.QUANTITY, series, one, marks=False)]
