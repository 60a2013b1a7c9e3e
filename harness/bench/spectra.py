"""What the spectra of a model cost, beside Gram matrices and their eigenvalues alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

import models
from harness.bench.measurement import Measurement
from harness.bench.pairs import DROPPED
from harness.spectra.esd import float64
from harness.spectra.layers import spectrum
from harness.spectra.selection import Layer, chosen

METHODS = ("hill_mid", "ks")
MOST_TIME = 1.3  # of the floor's
MOST_KS = 1.2  # of hill_mid's
MOST_MEMORY = 2.0  # of the largest matrix in float64


@dataclass(frozen=True)
class SpectraRow:
    """The layers of a model, all together.

    Attributes:
        include: which of them.
        layers: how many.
        floor: milliseconds of float64 Gram matrices and eigenvalues alone.
        ratios: time of each method / floor, then of ks / hill_mid.
    """

    include: str
    layers: int
    floor: Measurement
    ratios: tuple[Measurement, ...]


def measure(
    model: str, include: str, rounds: int, after_round: Callable[[], None] = lambda: None
) -> SpectraRow:
    """Times of all layers, floor and methods in turns matrix by matrix, in CPU seconds of one thread."""
    weights = models.build(model).state_dict()
    layers = chosen(weights, include)
    with threadpool_limits(1):
        found = []
        for done in range(DROPPED + rounds):
            times = _round(layers)
            began = time.process_time()
            chosen(weights, include)
            times[1:] += time.process_time() - began
            if done >= DROPPED:
                found.append(times)
            after_round()
    floor, *ours = np.array(found).T
    ratios = [
        Measurement.of(f"{name} / floor", "x", list(one / floor), MOST_TIME)
        for name, one in zip(METHODS, ours, strict=True)
    ]
    ratios.append(Measurement.of("ks / hill_mid", "x", list(ours[1] / ours[0]), MOST_KS))
    return SpectraRow(include, len(layers), Measurement.of("floor", "ms", list(1000 * floor)), tuple(ratios))


def _round(layers: list[Layer]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds of the floor and of each method, over all layers."""
    times = np.zeros(1 + len(METHODS))
    for layer in layers:
        times[0] += _floor(layer)
        for index, method in enumerate(METHODS, start=1):
            began = time.process_time()
            spectrum(layer, method=method)
            times[index] += time.process_time() - began
    return times


def _floor(layer: Layer) -> float:
    """Seconds of the Gram matrix of the smaller side and its eigenvalues; the float64 copy is made before."""
    values = float64(layer.read())
    values = values if values.shape[0] <= values.shape[1] else values.T
    began = time.process_time()
    np.linalg.eigvalsh(values @ values.T)
    return time.process_time() - began


def largest(model: str) -> int:
    """Bytes of the largest layer in float64."""
    return max(8 * math.prod(layer.weight.shape) for layer in chosen(models.build(model), "all"))
