"""The data of the spectral figures, from what the winner's replicas have recorded. Plain values."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.store import Store
from results.analysis.select import OPTIMIZER, choose
from results.analysis.spectra import Mean, Row, Spectra, is_sound, mean_alpha, of_winner, sound_layers
from results.figures.panels import titles, workloads

_MOST_NAMES = 24  # layers; more are numbered, since their names would not fit
_MOST_POINTS = 128  # of a sorted spectrum; more are not visible

Found = Mapping[str, Sequence[Spectra]]  # by optimizer


@dataclass(frozen=True)
class LayerPanel:
    """One quantity of the weights, layer by layer.

    Attributes:
        title, subtitle: text above the panel.
        axis, quantity: what the places are, and what the values.
        layers: their short names, or numbers.
        lines: by optimizer, for each seed the value of each layer; None where there is none that counts.
        random: the same of a random matrix of each shape; empty for quantities that depend on its scale.
        left_out: the places of layers whose alpha does not enter a mean.
    """

    title: str
    subtitle: str
    axis: str
    quantity: str
    layers: list[str]
    lines: dict[str, list[list[float | None]]]
    random: list[float | None]
    left_out: list[int]


@dataclass(frozen=True)
class BarPanel:
    """Mean alpha of each optimizer on one workload, over the same layers for all."""

    title: str
    subtitle: str
    bars: dict[str, Mean]


@dataclass(frozen=True)
class UpdatePanel:
    """Sorted singular values of the updates at one step, of the matrices of one shape.

    Attributes:
        title, subtitle: text above the panel.
        ranks: the places in the sorted spectrum, from 1.
        curves: by optimizer the mean, the least and the greatest value at each of `ranks`, over matrices and
            seeds.
    """

    title: str
    subtitle: str
    ranks: list[int]
    curves: dict[str, tuple[list[float], list[float], list[float]]]


def alpha_layers(frame: pd.DataFrame, store: Store) -> list[LayerPanel]:
    """Alpha of each layer."""
    return [
        _layer_panel(part, found, "alpha", "alpha", list(_first(found)))
        for part, found in _with_weights(frame, store)
    ]


def alpha_kinds(frame: pd.DataFrame, store: Store) -> list[LayerPanel]:
    """Alpha of each layer, a panel for each kind of layer, where a model has several kinds."""
    return [
        _layer_panel(part, found, "alpha", "alpha", names, kind)
        for part, found in _with_weights(frame, store)
        for kind, names in _kinds(_first(found)).items()
    ]


def norms(frame: pd.DataFrame, store: Store) -> list[LayerPanel]:
    """Spectral and Frobenius norm of each layer."""
    shown = {"sigma_max": "spectral norm", "fro": "Frobenius norm"}
    return [
        _layer_panel(part, found, column, quantity, list(_first(found)))
        for part, found in _with_weights(frame, store)
        for column, quantity in shown.items()
    ]


def alpha_bars(frame: pd.DataFrame, store: Store) -> list[BarPanel]:
    """Mean alpha of each optimizer over the layers that are sound in all of its and the others' runs."""
    panels = []
    for part, found in _with_weights(frame, store):
        layers = sound_layers(found)
        means = {name: mean_alpha(own, layers) for name, own in found.items()}
        bars = {name: mean for name, mean in means.items() if mean is not None}
        if bars:
            counted = f"mean over {len(layers)} of {len(_first(found))} layers"
            seeds = f"{_seeds({name: found[name] for name in bars})} seeds, {_method(found)}"
            said = _subtitle(part, f"mean and sd of {seeds}", counted + _reasons(found, layers))
            panels.append(BarPanel(titles(part)[0], said, bars))
    return panels


def update_spectra(frame: pd.DataFrame, store: Store) -> list[UpdatePanel]:
    """Singular values of the updates: a panel for each workload and step, of the matrices of one shape."""
    panels = []
    for part, found in _of_winners(frame, store):
        every = [one for own in found.values() for one in own]
        shape = _largest_shape(row for one in every for rows in one.updates.values() for row in rows.values())
        for step in sorted({step for one in every for step in one.updates}):
            panels += _update_panel(part, found, step, shape)
    return panels


# --- which runs ---


def _of_winners(frame: pd.DataFrame, store: Store) -> Iterator[tuple[pd.DataFrame, Found]]:
    for part in workloads(frame):
        found = {
            str(choice.fixed["optimizer"]): of_winner(choice, store) for choice in choose(part, OPTIMIZER)
        }
        if any(found.values()):
            yield part, {name: own for name, own in found.items() if own}


def _with_weights(frame: pd.DataFrame, store: Store) -> Iterator[tuple[pd.DataFrame, Found]]:
    for part, found in _of_winners(frame, store):
        measured = {name: [one for one in own if one.weights] for name, own in found.items()}
        if any(measured.values()):
            yield part, {name: own for name, own in measured.items() if own}


def _first(found: Found) -> Mapping[str, Row]:
    """The layers of the model, in its order."""
    return next(iter(found.values()))[0].weights


def _kinds(layers: Mapping[str, Row]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for name, row in layers.items():
        kinds.setdefault(row["kind"], []).append(name)
    return kinds if len(kinds) > 1 else {}


# --- panels ---


def _layer_panel(
    part: pd.DataFrame, found: Found, column: str, quantity: str, names: Sequence[str], kind: str = ""
) -> LayerPanel:
    rows, is_alpha = _first(found), column == "alpha"
    sound = set(sound_layers(found))
    hides = is_alpha and bool(sound)  # an alpha of few eigenvalues would stretch the axis
    return LayerPanel(
        ", ".join(filter(None, [titles(part)[0], kind])),
        _subtitle(part, f"mean and range of {_seeds(found)} seeds"),
        "block" if kind else "layer",
        f"{quantity} ({_method(found)})" if is_alpha else quantity,
        [str(rows[name]["block"]) for name in names] if kind else _short(rows),
        {
            optimizer: [[_value(one.weights.get(name), column, hides) for name in names] for one in own]
            for optimizer, own in found.items()
        },
        [None if hides and name not in sound else rows[name]["alpha_random"] for name in names]
        if is_alpha
        else [],
        [place for place, name in enumerate(names) if name not in sound] if is_alpha else [],
    )


def _value(row: Row | None, column: str, hides: bool) -> float | None:
    return None if row is None or (hides and not is_sound(row)) else row[column]


def _short(rows: Mapping[str, Row]) -> list[str]:
    names = [f"{row['block']} {row['kind']}" for row in rows.values()]
    fit = len(names) <= _MOST_NAMES and len(set(names)) == len(names)
    return names if fit else [str(number) for number in range(1, len(names) + 1)]


def _subtitle(part: pd.DataFrame, *more: str) -> str:
    return "\n".join(filter(None, [titles(part)[1], *more]))


def _seeds(found: Found) -> str:
    return "-".join(map(str, sorted({len(own) for own in found.values()})))


def _method(found: Found) -> str:
    methods = {row["method"] for own in found.values() for one in own for row in one.weights.values()}
    return ", ".join(sorted(methods))


def _reasons(found: Found, layers: Sequence[str]) -> str:
    """Why layers are left out: " (small_n: 2)"."""
    why: dict[str, set[str]] = {}
    for own in found.values():
        for one in own:
            for name, row in one.weights.items():
                if name not in layers and not is_sound(row):
                    why.setdefault(", ".join(row["flags"]) or "no alpha", set()).add(name)
    return f" ({'; '.join(f'{flags}: {len(names)}' for flags, names in sorted(why.items()))})" if why else ""


def _largest_shape(rows: Iterable[Row]) -> tuple[int, int]:
    """The shape that has the most singular values in all matrices together."""
    shapes: Counter[tuple[int, int]] = Counter()
    for row in rows:
        shapes[row["rows"], row["cols"]] += len(row["update"])
    return shapes.most_common(1)[0][0] if shapes else (0, 0)


def _update_panel(part: pd.DataFrame, found: Found, step: int, shape: tuple[int, int]) -> list[UpdatePanel]:
    values = {name: _updates(own, step, shape) for name, own in found.items()}
    values = {name: own for name, own in values.items() if own}
    if not values:
        return []
    length = min(len(one) for own in values.values() for one in own)
    ranks = _spread(length)
    curves = {name: _curve(own, ranks) for name, own in values.items()}
    matrices = max(map(len, values.values())) // max(map(len, found.values()))
    noun = "matrix" if matrices == 1 else "matrices"
    said = f"step {step}, {matrices} {noun} {shape[0]} x {shape[1]}, {_seeds(found)} seeds"
    return [UpdatePanel(titles(part)[0], _subtitle(part, said), ranks, curves)]


def _updates(runs: Iterable[Spectra], step: int, shape: tuple[int, int]) -> list[list[float]]:
    rows = [row for one in runs for row in one.updates.get(step, {}).values()]
    chosen = [row["update"] for row in rows if (row["rows"], row["cols"]) == shape]
    return [update for update in chosen if update and None not in update]


def _spread(length: int) -> list[int]:
    """Ranks from 1 to `length`, equally spaced if they are many."""
    if length <= _MOST_POINTS:
        return list(range(1, length + 1))
    return sorted({1 + round(i * (length - 1) / (_MOST_POINTS - 1)) for i in range(_MOST_POINTS)})


def _curve(
    updates: Sequence[Sequence[float]], ranks: Sequence[int]
) -> tuple[list[float], list[float], list[float]]:
    at = [[update[rank - 1] for update in updates] for rank in ranks]
    return [statistics.fmean(one) for one in at], list(map(min, at)), list(map(max, at))
