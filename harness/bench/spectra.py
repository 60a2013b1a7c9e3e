"""What the spectra of a model cost, beside Gram matrices and their eigenvalues alone."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import models
from harness.bench.machine import in_fresh_process, peak_of
from harness.bench.turns import AT_MOST, DROPPED, RATIO, Benchmark, Measurement, machine
from harness.show.note import Note
from harness.show.progress import Progress
from harness.show.report import Column, Report, table
from harness.spectra import layers
from harness.spectra.esd import float64
from harness.spectra.layers import spectrum
from harness.spectra.selection import Layer, chosen
from harness.system import environment

SETS = ("hidden", "all")
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


@dataclass(frozen=True)
class SpectraFacts(Benchmark):
    """The report.

    Attributes:
        model: as given.
        rounds: as given.
        clock: what times are of.
        largest_bytes: of the largest layer in float64.
        most_memory: target, in units of it.
        rows: which layers were measured.
        peak_bytes: by method.
    """

    model: str
    rounds: int
    clock: str
    largest_bytes: int
    most_memory: float
    rows: Sequence[SpectraRow]
    peak_bytes: Mapping[str, int]


def times_of(
    model: str, include: str, rounds: int, after_round: Callable[[], None] = lambda: None
) -> SpectraRow:
    """Times of all layers, floor and methods in turns matrix by matrix, in CPU seconds of one thread."""
    weights = models.build(model).state_dict()
    measured = chosen(weights, include)
    with threadpool_limits(1):
        seconds = []
        for done in range(DROPPED + rounds):
            times = _round(measured)
            began = time.process_time()
            chosen(weights, include)
            times[1:] += time.process_time() - began
            if done >= DROPPED:
                seconds.append(times)
            after_round()
    floor, *ours = np.array(seconds).T
    ratios = [
        Measurement.ratio(f"{name} / floor", "x", times, floor, MOST_TIME)
        for name, times in zip(METHODS, ours, strict=True)
    ]
    ratios.append(Measurement.ratio("ks / hill_mid", "x", ours[1], ours[0], MOST_KS))
    return SpectraRow(
        include, len(measured), Measurement.of("floor", "ms", list(1000 * floor)), tuple(ratios)
    )


def _round(measured: list[Layer]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds of the floor and of each method, over all layers."""
    times = np.zeros(1 + len(METHODS))
    for layer in measured:
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


def memory_of(model: str, method: str) -> int:
    """Peak bytes of the spectra of all layers of a model, above its weights; in a process of its own."""
    layers.measure(models.build("llama-nano"), method=method)
    weights = models.build(model).state_dict()
    return peak_of(lambda: layers.measure(weights, method=method, include="all"), "cpu")


# --- the report ---

_COLUMNS = (
    Column("set", kind="text"),
    Column("layers"),
    Column("ratio", kind="text", importance=9),
    *RATIO,
    AT_MOST,
)


def measure(model: str, rounds: int) -> Report:
    """Measure time and memory: ratios of both sets of layers, then the floor and the memory.

    Raises:
        ValueError: there is no such model.
    """
    largest_bytes = largest(model)
    rows = []
    with Progress(len(SETS) * (DROPPED + rounds), "rounds", parts=len(SETS)) as progress:
        for include in SETS:
            progress.begin(f"{include} layers of {model}")
            rows.append(times_of(model, include, rounds, progress.advance))
    torch.set_num_threads(1)
    peaks = {method: in_fresh_process(memory_of, model, method) for method in METHODS}
    about = environment.describe_with_cpu_flags("cpu")
    facts = SpectraFacts(
        *("spectra", about, model, rounds, "CPU time", largest_bytes, MOST_MEMORY),
        rows=rows,
        peak_bytes=peaks,
    )
    cells = [
        [row.include, row.layers, ratio.name, *ratio.cells, ratio.verdict]
        for row in rows
        for ratio in row.ratios
    ]
    notes = [Note("bench_floor", times=[f"{row.floor.median:.1f} ms for {row.include}" for row in rows])]
    for method, peak in peaks.items():
        share = peak / largest_bytes
        notes.append(Note("bench_spectra_memory", method=method, peak=peak, share=share, most=MOST_MEMORY))
    grid = table(_COLUMNS, cells, above=machine(about, in_bfloat16=False), notes=notes)
    return Report("bench spectra", f"{model}, 1 thread, CPU time", [grid], data=facts)
