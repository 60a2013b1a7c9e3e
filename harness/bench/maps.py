"""The error of each map of the singular values, on matrices with different spectra.

The truth is U f(S) V^T from an SVD in float64. f(S) is S^p, or what the authors of a map name, without what
their iteration makes of small singular values; by the defaults of the hyperparameters, and up to a factor,
which `Map.scaled` takes out.
"""

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

import models
import optimizers
from harness import tasks
from harness.bench.turns import Benchmark, machine
from harness.show.note import Note
from harness.show.progress import Progress
from harness.show.report import Column, Report, Section, table
from harness.system import environment
from optimizers import SPECTRAL
from optimizers.zoo.spectral import MAPS as HYPERPARAMETERS

TASK, MODEL, BATCH_SIZE = "pydocs", "llama-nano", 16  # where momentum matrices are captured
SYNTHETIC = {"n": 512, "wide": 1376}  # shapes of llama-60m
WARM_STEPS = 10  # of a map with memory, on a matrix that does not change

Factors: TypeAlias = "tuple[Tensor, Tensor, Tensor]"  # U, S, V^T


def _default(name: str) -> Any:
    return HYPERPARAMETERS[name].default


def _unit(values: Tensor) -> Tensor:
    return values / values.pow(4).sum().pow(0.25)


def _soft_polar(values: Tensor) -> Tensor:
    s = _default("softening")
    return _unit(values).mul(s * len(values) ** 0.25).add(1 - s)


# f(S) of the maps where it is not S^p, of values in descending order. x = S / ||S||_4.
SHAPES: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    # i^-alpha, HTMuon_HT
    "rank_power": lambda values: (values > -1).to(values).cumsum(-1).pow(-_default("rank_exponent")),
    # S^.1, Soft-Muon
    "soft_muon": lambda values: values.pow(0.1),
    # 1 - contra x, Contra-Muon
    "contra_muon": lambda values: _unit(values).mul(-_default("contra")).add(1),
    # 1 - s + s x, Soft-polar, where the x have the 4-norm of as many ones
    "soft_polar": _soft_polar,
}


@dataclass(frozen=True)
class Map:
    """A map as it is measured.

    Attributes:
        label: in tables.
        name: a key of `SPECTRAL`.
        hyper: its hyperparameters, where they differ from the defaults.
        scaled: compare up to the best scalar factor, since the map gives every matrix the same size.
    """

    label: str
    name: str
    hyper: dict[str, Any] = field(default_factory=dict)
    scaled: bool = False

    def __call__(self, matrix: Tensor, p: float, state: dict[str, Any]) -> Tensor:
        """The map of a matrix; `state` is its memory."""
        group = {name: param.default for name, param in HYPERPARAMETERS.items()}
        return SPECTRAL[self.name](matrix, state, {**group, "p": p, **self.hyper})

    def truth(self, factors: Factors, p: float) -> Tensor:
        """What it approximates, from the factors of the matrix."""
        left, values, right = factors
        shape = SHAPES.get(self.name)
        return left * (shape(values) if shape else values.pow(self.hyper.get("p", p))) @ right

    def score(self, mapped: Tensor, factors: Factors, p: float) -> tuple[float, float]:
        """Relative Frobenius error of `mapped`, and the cosine of its angle to the truth."""
        mapped, true = mapped.double(), self.truth(factors, p)
        cosine = ((mapped * true).sum() / (mapped.norm() * true.norm())).item()
        if self.scaled:
            return max(0.0, 1 - cosine**2) ** 0.5, cosine
        return ((mapped - true).norm() / true.norm()).item(), cosine


_SETS = ("k5", "k6", "k7", "k8", "k6_accurate", "k7_accurate")

MEASURED: Final = (
    Map("newton_schulz", "newton_schulz", {"ns_dtype": "float32"}, scaled=True),
    Map("newton_schulz bf16", "newton_schulz", {"ns_dtype": "bfloat16"}, scaled=True),
    Map("svd_power", "svd_power"),
    Map("gram_power f64", "gram_power", {"gram_dtype": "float64"}),
    Map("gram_power graded", "gram_power", {"gram_dtype": "graded"}),
    Map("gram_power f32", "gram_power", {"gram_dtype": "float32"}),
    Map("ns_root right", "ns_root", {"gram_side": "right", "ns_dtype": "float32"}),
    Map("ns_root small", "ns_root", {"gram_side": "small", "ns_dtype": "float32"}),
    Map("rank_power", "rank_power"),
    Map("stream_power", "stream_power"),
    *(Map(f"mix {mix}", "mix_power", {"mix_set": mix, "mix_dtype": "float32"}) for mix in _SETS),
    *(Map(f"mix {mix} bf16", "mix_power", {"mix_set": mix, "mix_dtype": "bfloat16"}) for mix in _SETS),
    *(Map(f"mix {mix} f16", "mix_power", {"mix_set": mix, "mix_dtype": "float16"}) for mix in _SETS),
    Map("soft_muon", "soft_muon", scaled=True),
    Map("contra_muon", "contra_muon", scaled=True),
    Map("dynmuon p=0.25", "dynmuon", {"p": 0.25}),  # of the powers up to 1 it takes those up to 1/2
    Map("soft_polar", "soft_polar", scaled=True),
)


@dataclass(frozen=True)
class Error:
    """One map on one matrix, or the medians over the matrices of a model.

    Attributes:
        map, matrix: labels.
        error: relative Frobenius error.
        cosine: of the angle to the truth.
        each: error for every matrix of the model by name.
    """

    map: str
    matrix: str
    error: float
    cosine: float
    each: Mapping[str, float] = field(default_factory=dict)


def factors_of(matrix: Tensor) -> Factors:
    """U, S and V^T of a thin SVD in float64."""
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    return left, values, right


# --- matrices that are made ---


def synthetic(n: int = 512, wide: int = 1376) -> dict[str, Tensor]:
    """Matrices n x n, and one n x wide: Gaussian, with power laws as spectra, and of rank 16 with noise."""
    generator = torch.Generator().manual_seed(0)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def power_law(exponent: float) -> Tensor:
        left, right = (torch.linalg.qr(gaussian(n, n).double()).Q for _ in range(2))
        values = torch.arange(1, n + 1, dtype=left.dtype).pow(-exponent)
        matrix: Tensor = left * values @ right.mT
        return matrix.float()

    return {
        "gauss": gaussian(n, n),
        "wide": gaussian(n, wide),
        "k^-0.5": power_law(0.5),
        "k^-1": power_law(1),
        "k^-2": power_law(2),
        "rank16": gaussian(n, 16) @ gaussian(16, n) + 0.3 * gaussian(n, n),
    }


def on_synthetic(matrices: Mapping[str, Tensor], p: float) -> Iterator[Error]:
    """Every map on every matrix; a map with memory sees the matrix `WARM_STEPS` times."""
    for name, matrix in matrices.items():
        factors = factors_of(matrix)
        for map_ in MEASURED:
            state: dict[str, Any] = {}
            mapped = map_(matrix, p, state)
            for _ in range(WARM_STEPS - 1 if state else 0):
                mapped = map_(matrix, p, state)
            yield Error(map_.label, name, *map_.score(mapped, factors, p))


# --- matrices from a run ---


def captured(steps: int, cache: Path, model_name: str = MODEL, **sizes: int) -> Iterator[dict[str, Tensor]]:
    """The input of Muon's map in each step of a short run: every matrix by name.

    Args:
        steps: of the run of the model on `TASK` with Muon at its defaults.
        cache: folder for the prepared data.
        model_name: a name of `models.build`.
        sizes: of the model, where they differ: `layers=1` makes "llama-60m" a block of width 512.
    """
    task = tasks.build(TASK, cache=cache, batch_size=BATCH_SIZE, data_seed=0)
    torch.manual_seed(0)
    model = models.build(model_name, **{**task.model_options, **sizes})
    optimizer = optimizers.build("muon", model)
    beta = optimizer.param_groups[0]["momentum"]
    for step in range(steps):
        batch = task.batch(step)
        optimizer.zero_grad()
        (task.loss(model, batch) / batch.count).backward()
        optimizer.step()
        yield {
            name: W.grad.lerp(optimizer.state[W]["momentum"], beta)  # ahead of the average: Nesterov
            for name, W in model.named_parameters()
            if W.grad is not None and W.ndim == 2
        }


def looks(steps: int) -> list[int]:
    """The steps of a run whose matrices are compared."""
    return sorted({step for step in (1, 10, steps // 2, steps) if 1 <= step <= steps})


def on_captured(steps: int, cache: Path, p: float) -> Iterator[Error]:
    """Every map at some steps of a run; a map with memory follows all steps."""
    states: dict[tuple[str, str], dict[str, Any]] = {}
    with_memory = [map_ for map_ in MEASURED if map_.name == "stream_power"]
    for step, matrices in enumerate(captured(steps, cache), start=1):
        look = step in looks(steps)
        factors = {name: factors_of(matrix) for name, matrix in matrices.items() if look}
        for map_ in MEASURED if look else with_memory:
            mapped = {
                name: map_(matrix, p, states.setdefault((map_.label, name), {}))
                for name, matrix in matrices.items()
            }
            if look:
                scores = {name: map_.score(mapped[name], factors[name], p) for name in mapped}
                error, cosine = map(statistics.median, zip(*scores.values(), strict=True))
                each = {name: error for name, (error, _) in scores.items()}
                yield Error(map_.label, f"t={step}", error, cosine, each)


# --- the report ---


@dataclass(frozen=True)
class Captured:
    """A run whose momentum matrices are taken.

    Attributes:
        task, model: of the run.
        steps: of the run; 0: none is made.
    """

    task: str
    model: str
    steps: int


@dataclass(frozen=True)
class MapsFacts(Benchmark):
    """The report.

    Attributes:
        p: power of the singular values.
        captured: the run whose momentum is taken.
        shapes: of the synthetic matrices.
        errors: of each map on each matrix.
    """

    p: float
    captured: Captured
    shapes: Mapping[str, Sequence[int]]
    errors: Sequence[Error]


def measure(steps: int, cache: Path, p: float) -> Report:
    """Measure every map.

    Args:
        steps: of the run whose momentum matrices are taken; 0: none.
        cache: folder for the prepared data.
        p: power of the singular values.
    """
    torch.set_num_threads(1)
    matrices = synthetic(**SYNTHETIC)
    parts, errors = len(matrices) + len(looks(steps)), list[Error]()
    with Progress(parts * len(MEASURED), "maps", parts=parts) as progress:
        for error in itertools.chain(on_synthetic(matrices, p), on_captured(steps, cache, p)):
            if not errors or errors[-1].matrix != error.matrix:
                progress.begin(error.matrix)
            progress.advance()
            errors.append(error)
    about = environment.describe_with_cpu_flags("cpu", tasks.fingerprint(TASK))
    shapes = {name: list(matrix.shape) for name, matrix in matrices.items()}
    facts = MapsFacts("maps", about, p, Captured(TASK, MODEL, steps), shapes, errors)
    notes = [Note("bench_map_columns", n=shapes["wide"][0], wide=shapes["wide"][1])]
    notes += [Note("bench_map_steps", model=MODEL, task=TASK)] if steps else []
    above = machine(about, in_bfloat16=False)
    sections = [_section(errors, "error", "error", above), _section(errors, "cosine", "", ())]
    title = f"distance to U S^p V^T from an SVD in float64, p = {p:g}"
    return Report("bench maps", title, sections, notes, data=facts)


def _section(errors: Sequence[Error], value: str, unit: str, above: Sequence[Note]) -> Section:
    """A line per map and a column per matrix."""
    names = dict.fromkeys(error.matrix for error in errors)
    values = {(error.map, error.matrix): getattr(error, value) for error in errors}
    rows = [
        [label, *(values[label, name] for name in names)] for label in dict.fromkeys(e.map for e in errors)
    ]
    digits = None if unit else 4
    columns = [Column(name, unit=unit, digits=digits) for name in names]
    return table([Column(value, kind="text"), *columns], rows, above=above)
