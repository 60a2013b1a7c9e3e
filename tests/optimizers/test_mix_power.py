"""Our map of the singular values: the fits in its data file, the map on matrices, and weights for any p.

References are in float64. Tolerances are what an independent implementation measured, with head-room.
"""

import functools
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from htbench import optimizers
from htbench.optimizers.spectral.mix_power import MIX_SETS, solve_weights
from htbench.optimizers.spectral.mix_power import mix_power as module
from htbench.optimizers.spectral.mix_weights import interpolate_weights, mixture
from tests.helpers.matrices import ROUNDED_TWICE, gaussian
from tests.helpers.operations import Operations

SETS: dict[str, Any] = json.loads(
    (Path(optimizers.__file__).parent / "spectral" / "mix_power.json").read_text()
)["sets"]
SHAPES = [(96, 160), (128, 128)]
# ||O - U S^p V^T|| / ||U S^p V^T|| in bfloat16, worst over p and shape, with 0 and with 2 steps in float32
BFLOAT16 = {
    "k5": (0.026, 0.018),
    "k6": (0.053, 0.021),
    "k7": (0.118, 0.030),
    "k8": (0.231, 0.062),
    "k6_accurate": (0.042, 0.017),
    "k7_accurate": (0.072, 0.021),
}
# Of the table on [lo, 1.02], for exponents that are not in the file
NEGATIVE = {
    "k5": (0.28, 0.091, 0.039),
    "k6": (0.37, 0.097, 0.037),
    "k7": (0.33, 0.096, 0.040),
    "k8": (0.42, 0.080, 0.023),
    "k6_accurate": (0.22, 0.048, 0.018),
    "k7_accurate": (0.23, 0.045, 0.016),
}
every_set = pytest.mark.parametrize("name", SETS)


def mix_power(
    M: Tensor, p: float, name: str = "k6", dtype: torch.dtype = torch.float32, fp32_steps: int = 0
) -> Tensor:
    """The map in float32 unless a test says otherwise: there its error is that of the polynomial."""
    return module(M, p, name, dtype, fp32_steps)


def fits(name: str) -> list[tuple[float, dict[str, Any]]]:
    return [(float(p), fit) for p, fit in SETS[name]["weights"].items()]


def log_spaced(low: float, high: float, points: int = 20_000) -> Tensor:
    return low * (high / low) ** torch.linspace(0, 1, points, dtype=torch.float64)


def g(name: str, w: Any, x: Tensor) -> Tensor:
    """What becomes of a singular value x, straight from the coefficients."""
    f, total = x, w[0] * x
    for (a, b, c), weight in zip(SETS[name]["steps_abc"], w[1:], strict=True):
        f = a * f + b * f**3 + c * f**5
        total = total + weight * f
    return total


def error(name: str, w: Any, p: float, x: Tensor) -> float:
    return (g(name, w, x) / x**p - 1).abs().max().item()


@functools.lru_cache
def bases(m: int, n: int) -> tuple[Tensor, Tensor]:
    rank = min(m, n)
    return torch.linalg.qr(gaussian(m, rank))[0], torch.linalg.qr(gaussian(n, rank, seed=1))[0]


def distance(found: Tensor, expected: Tensor) -> float:
    return ((found.double() - expected).norm() / expected.norm()).item()


def test_the_words_are_the_sets_of_the_file() -> None:
    assert tuple(SETS) == MIX_SETS


@every_set
def test_the_fits_are_as_good_as_the_file_says(name: str) -> None:
    lo = SETS[name]["lo"]
    inside, below, above = log_spaced(lo, 1.02), log_spaced(1e-6 * lo, lo), torch.tensor(1.03)
    for p, fit in fits(name):
        assert error(name, fit["w"], p, inside) <= 1.01 * fit["max_rel_err"]
        assert error(name, fit["w"], p, above) <= 2 * fit["max_rel_err"]
        damped = g(name, fit["w"], below)
        assert (damped > 0).all() and (damped <= 1.02 * below**p).all()
        assert (damped[0] / below[0]).item() == pytest.approx(fit["slope_at_0"], rel=1e-3)


@every_set
def test_the_fits_keep_the_order_as_well_as_the_file_says(name: str) -> None:
    x = log_spaced(SETS[name]["lo"], 1.02)
    for _, fit in fits(name):
        y = g(name, fit["w"], x)
        drop = (1 - y / y.cummax(0).values).max().item()
        assert drop <= 1.1 * fit["max_drop"] + 1.1e-5


@every_set
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_singular_values_are_raised_to_the_power(name: str, m: int, n: int) -> None:
    (U, V), s = bases(m, n), log_spaced(2.5 * SETS[name]["lo"], 1, min(m, n)) * 3e-4
    M = U * s @ V.T
    for p, fit in fits(name):
        for dtype in (torch.float64, torch.float32):
            O = mix_power(M.to(dtype), p, name)  # noqa: E741
            ratio = torch.einsum("ir,ij,jr->r", U, O.double(), V) / s**p
            assert O.dtype == dtype and (ratio - 1).abs().max() <= 1.02 * fit["max_rel_err"]
        for fp32_steps, tolerance in zip((0, 2), BFLOAT16[name], strict=True):
            O = mix_power(M.float(), p, name, torch.bfloat16, fp32_steps)  # noqa: E741
            assert distance(O, U * s**p @ V.T) <= 1.7 * tolerance


def test_accuracy_on_a_gaussian_matrix() -> None:
    M = gaussian(512, 512)
    U, S, Vh = torch.linalg.svd(M, full_matrices=False)
    expected = U * S**0.125 @ Vh
    assert distance(mix_power(M.float(), 0.125, "k6"), expected) <= 0.03
    assert distance(mix_power(M.float(), 0.125, "k7"), expected) <= 0.02


def test_it_is_homogeneous_over_the_range_of_float32() -> None:
    M = gaussian(24, 40).float()
    M /= M.abs().max()
    O = mix_power(M, 0.125).double()  # noqa: E741
    for c in (1e-25, 1e-12, 1e12, 1e25, 3e38):
        assert distance(mix_power(c * M, 0.125), c**0.125 * O) <= 1e-5


def test_it_commutes_with_transposition_bit_for_bit() -> None:
    M = gaussian(24, 40).float()
    assert torch.equal(mix_power(M.T, 0.25), mix_power(M, 0.25).T)


@every_set
def test_null_directions_stay_null(name: str) -> None:
    (U, V), (p, fit) = bases(96, 160), fits(name)[3]
    rank_one = torch.outer(U[:, 0], V[:, 0])
    assert distance(mix_power(9 * rank_one, p, name), 9**p * rank_one) <= 1.01 * fit["max_rel_err"]


def test_power_one_is_the_matrix() -> None:
    M = gaussian(4, 6)
    assert torch.equal(mix_power(M, 1.0), M)


def test_precision_of_the_iterations() -> None:
    M = gaussian(24, 40)
    exact, single = mix_power(M, 0.125), mix_power(M.float(), 0.125)
    assert torch.equal(mix_power(M, 0.125, dtype=torch.bfloat16), exact)  # float64 stays float64
    assert torch.equal(
        mix_power(M.float(), 0.125, dtype=torch.float64), mix_power(M.float().double(), 0.125).float()
    )
    half = M.bfloat16()
    assert torch.equal(mix_power(half, 0.125), mix_power(half.float(), 0.125).bfloat16())
    mixed = [mix_power(M.float(), 0.125, "k6", torch.bfloat16, steps) for steps in range(8)]
    assert torch.equal(mixed[6], single) and torch.equal(mixed[7], single)
    assert 1e-4 < distance(mixed[5], exact) < distance(mixed[0], exact)
    assert not torch.equal(mixed[0], mixed[0].bfloat16().float())  # the sum is in float32


@every_set
@pytest.mark.parametrize(
    ("dtype", "fp32_steps"), [(torch.float32, 2), (torch.bfloat16, 0), (torch.bfloat16, 2)]
)
def test_it_costs_three_products_an_iteration(name: str, dtype: torch.dtype, fp32_steps: int) -> None:
    M = gaussian(8, 6).float()
    with Operations() as operations:
        mix_power(M, 0.125, name, dtype, fp32_steps)
    assert operations.count("mm", "addmm", "bmm", "baddbmm", "matmul") == 3 * SETS[name]["K"]


@pytest.mark.slow
def test_it_compiles_whole() -> None:
    compiled = torch.compile(mix_power, backend="eager", fullgraph=True)
    M = gaussian(12, 8).float()
    for p in (0.125, 0.3, 0.44):  # of a second and third number, torch.compile would make a variable
        torch.testing.assert_close(compiled(M, p), mix_power(M, p), rtol=0, atol=ROUNDED_TWICE)
    assert torch.equal(compiled(0 * M, 0.3), 0 * M)


# The first column bounds p = 0, 0.05, ..., 0.95; the second is the optimum of a linear program for p = 0.125.
@pytest.mark.parametrize(
    ("name", "bound", "optimum"),
    [
        ("k5", 0.022, 0.0151),
        ("k6", 0.022, 0.0154),
        ("k7", 0.0175, 0.0123),
        ("k8", 0.0135, 0.0090),
        ("k6_accurate", 0.012, None),
        ("k7_accurate", 0.005, 0.0039),
    ],
)
def test_weights_are_solved_for_any_power(name: str, bound: float, optimum: float | None) -> None:
    lo = SETS[name]["lo"]
    inside, below = log_spaced(lo, 1.02), log_spaced(1e-6 * lo, lo, 1000)
    for p in (i / 20 for i in range(20)):
        w = solve_weights(p, name)
        damped = g(name, w, below)
        assert error(name, w, p, inside) <= bound
        assert (damped > 0).all() and (damped <= 1.02 * below**p).all()
    if optimum:
        assert error(name, solve_weights(0.125, name), 0.125, inside) <= 1.03 * optimum


def test_the_table_comes_first_and_nothing_is_solved_twice() -> None:
    solve_weights.cache_clear()
    M = gaussian(4, 6).float()
    assert mixture(0.1 + 1e-13, "k6")[1] == tuple(SETS["k6"]["weights"]["0.1"]["w"])
    assert solve_weights.cache_info().misses == 0
    for p in (0.1001, 0.1001, 0.11, 0.12):  # of one 1/32
        mix_power(M, p)
        assert solve_weights.cache_info().misses == 4


def test_a_power_that_changes_at_every_step_costs_no_solution() -> None:
    schedule = torch.linspace(0.25, -0.25, 2000, dtype=torch.float64).tolist()
    solve_weights.cache_clear()
    started = time.process_time()
    for p in schedule:
        mixture(p, "k6")
    assert solve_weights.cache_info().misses <= 19  # the multiples of 1/32 in between, and one or two outside
    assert time.process_time() - started < 1e-3 * len(schedule)  # measured: 0.12 ms each


@every_set
def test_interpolated_weights_are_nearly_as_good_as_solved_ones(name: str) -> None:
    x = log_spaced(SETS[name]["lo"], 1.02, 2000)
    for p in torch.linspace(-0.49, 0.999, 8, dtype=torch.float64).tolist():
        found, solved = (error(name, fit(p, name), p, x) for fit in (interpolate_weights, solve_weights))
        assert found <= max(1.12 * solved, 0.004)


@every_set
def test_a_negative_power_is_bounded_below_lo(name: str) -> None:
    lo = SETS[name]["lo"]
    inside, below = log_spaced(lo, 1.02), log_spaced(1e-6 * lo, lo, 1000)
    for p, bound in zip((-0.5, -0.25, -0.125), NEGATIVE[name], strict=True):
        w = mixture(p, name)[1]
        damped = g(name, w, below)
        assert error(name, w, p, inside) <= bound
        assert (damped > 0).all() and (damped <= lo**p).all()
        assert not module(torch.zeros(4, 6), p, name).any()
        (U, V), s = bases(96, 160), log_spaced(2.5 * lo, 1, 96) * 3e-4
        found = torch.einsum("ir,ij,jr->r", U, mix_power(U * s @ V.T, p, name), V)
        assert (found / s**p - 1).abs().max() <= 1.02 * bound


def test_defaults_are_those_of_a_machine_with_native_bfloat16() -> None:
    M = gaussian(24, 40).float()
    assert torch.equal(module(M, 0.125), mix_power(M, 0.125, "k6", torch.bfloat16, 0))


def test_float16_is_closer_to_float32_than_bfloat16() -> None:
    for scale in (1e-25, 1.0, 1e25):
        M = scale * gaussian(96, 160).float()
        exact = mix_power(M, 0.125).double()
        half, brain = (
            distance(mix_power(M, 0.125, "k6", dtype), exact) for dtype in (torch.float16, torch.bfloat16)
        )
        assert half < 0.3 * brain
    large = torch.full((8, 70_000), 1.0)  # X X^T alone would overflow
    assert mix_power(large, 0.125, "k6", torch.float16).isfinite().all()
    assert not mix_power(0 * large, -0.5, "k6", torch.float16).any()
