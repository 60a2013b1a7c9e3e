"""The spectra of runs: rows of `spectra.jsonl`, what counts in a mean, and means over layers and seeds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from htbench.harness.store import Store, curve
from htbench.harness.store.layout import SPECTRA

Row = dict[str, Any]

# A layer with one of these flags has no alpha that can be compared: `harness/spectra/tail.py`.
UNSOUND = {"not_finite", "small_n", "tail_hits_zero", "flat", "no_tail"}
_OF_WEIGHTS = {"layer", "block", "kind", "alpha", "alpha_random", "sigma_max", "fro", "flags", "method"}
_OF_UPDATES = {"layer", "rows", "cols", "update"}


@dataclass(frozen=True)
class Spectra:
    """What one run has recorded.

    Attributes:
        key: of the run.
        weights: of its last step: the row of each layer by name, in the order of the model.
        updates: by step the rows of the layers.
    """

    key: str
    weights: dict[str, Row] = field(default_factory=dict)
    updates: dict[int, dict[str, Row]] = field(default_factory=dict)


def read_spectra(runs: Iterable[Mapping[str, Any]], store: Store) -> list[Spectra]:
    """Those of the completed ones of some rows of the frame that have any."""
    spectra = []
    for run in runs:
        run_spectra = Spectra(str(run["key"]))
        if run["state"] != "completed" or store.look(run_spectra.key, SPECTRA) is None:
            continue
        for row in curve.read(store.files(run_spectra.key).spectra):
            if row.keys() >= _OF_UPDATES:
                run_spectra.updates.setdefault(row["step"], {})[row["layer"]] = row
            elif row["step"] == int(run["steps"]) and row.keys() >= _OF_WEIGHTS:
                run_spectra.weights[row["layer"]] = row
        if run_spectra.weights or run_spectra.updates:
            spectra.append(run_spectra)
    return spectra


def is_sound(row: Row) -> bool:
    """Whether the alpha of a layer may enter a mean."""
    return row["alpha"] is not None and not UNSOUND.intersection(row["flags"])


@dataclass(frozen=True)
class Mean:
    """Alpha of one optimizer over layers and seeds.

    Attributes:
        mean: over layers, then over seeds.
        sd: over seeds, of the mean over layers; None with one seed.
        median: over layers, then the mean over seeds.
        seeds: number of them.
    """

    mean: float
    sd: float | None
    median: float
    seeds: int


def sound_layers(runs: Mapping[str, Sequence[Spectra]]) -> list[str]:
    """The layers whose alpha is sound in every run of every optimizer.

    A mean over other layers is one over other shapes, and alpha depends on the shape. An optimizer without
    any sound layer takes none from the others.

    Args:
        runs: by optimizer, on one workload.
    """
    every = [run for run in chain(*runs.values()) if any(map(is_sound, run.weights.values()))]
    first = every[0].weights if every else {}
    return [
        name for name in first if all(name in run.weights and is_sound(run.weights[name]) for run in every)
    ]


def mean_alpha(runs: Iterable[Spectra], layers: Sequence[str]) -> Mean | None:
    """Mean and median of alpha over some layers; None if no run has a sound one of each."""
    values = [
        [run.weights[name]["alpha"] for name in layers]
        for run in runs
        if all(name in run.weights and is_sound(run.weights[name]) for name in layers)
    ]
    if not layers or not values:
        return None
    means = [statistics.fmean(alphas) for alphas in values]
    sd = statistics.stdev(means) if len(means) > 1 else None
    return Mean(statistics.fmean(means), sd, statistics.fmean(map(statistics.median, values)), len(means))
