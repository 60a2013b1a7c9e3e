"""The coefficients of `mix_power`: its sets, read from a data file, and weights for exponents not in there.

The file holds, per set, the iterations (a_k, b_k, c_k) that serve every exponent p, the interval [lo, hi]
that they were fitted on, and per tabulated p the weights w and the error measured for them. Those weights
come from a linear program that for p >= 0.1 also keeps the order of singular values, up to a relative drop of
0.3 %; with the weights of `solve_weights` it can be 4 %.
"""

import functools
import json
import math
import operator
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

MIX_SETS: Final = ("k5", "k6", "k7", "k8", "k6_accurate", "k7_accurate")

Steps: TypeAlias = "tuple[tuple[float, float, float], ...]"
Weights: TypeAlias = "tuple[float, ...]"

_GRID = 400  # points below 0.5, and above; with 200 the error between them exceeds that on them by 4 %
_ROUNDS = 60
_NODES = 32  # exponents per unit of p that are solved; the others are interpolated


def mixture(p: float, coefficients: str) -> tuple[Steps, Weights]:
    """Return the iterations of a set and its weights for p: from the file, or interpolated for another p.

    Raises:
        ValueError: there is no such set.
    """
    table = _set(coefficients)
    for tabulated, fit in table["weights"].items():
        if abs(float(tabulated) - p) <= 1e-12:
            return _steps(coefficients), tuple(fit["w"])
    return _steps(coefficients), interpolate_weights(p, coefficients)


# A constant where an optimizer is compiled: what torch.compiler.assume_constant_result would set, and import
# torch.compile for.
mixture._dynamo_marked_constant = True  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=256)
def interpolate_weights(p: float, coefficients: str) -> Weights:
    """Weights for p from the cubic through those solved at the four nearest multiples of 1/32.

    A schedule changes p in every step. This takes 20 microseconds, after one `solve_weights` for each 1/32
    that p passes. The greatest relative error exceeds that of solved weights by up to 12 % of itself
    for p up to 0.95, and is below 0.4 % from there to p = 1.

    Args:
        p: exponent, in [-0.5, 1].
        coefficients: one of `MIX_SETS`.

    Returns:
        w_0 .. w_K.
    """
    first = max(-_NODES // 2, min(math.floor(p * _NODES) - 1, _NODES - 3))
    nodes = [(first + i) / _NODES for i in range(4)]
    shares = [math.prod((p - b) / (a - b) for b in nodes if b != a) for a in nodes]
    solved = [solve_weights(node, coefficients) for node in nodes]
    return tuple(sum(map(operator.mul, shares, column)) for column in zip(*solved, strict=True))


@functools.cache
def solve_weights(p: float, coefficients: str) -> Weights:
    """Fit weights w by least squares, re-weighted until the greatest relative error is near its minimum.

        r_i = |sum_k w_k f_k(x_i) / x_i^p - 1|
        repeat:  w <- argmin sum_i q_i r_i^2,   q_i <- q_i (r_i / max r + 1e-3) / sum of these

    The greatest r over [lo, hi] exceeds the least that a linear program finds by up to 2 % of itself. Takes
    about 10 ms, once for each p and set in a process.

    Args:
        p: exponent, in [-0.5, 1]; 1 has the weights 1, 0, ..., 0.
        coefficients: one of `MIX_SETS`.

    Returns:
        w_0 .. w_K.

    Raises:
        ValueError: p is not in [-0.5, 1], or there is no such set.

    Source: C. L. Lawson, Contributions to the theory of linear least maximum approximation (thesis, 1961).
    """
    if not -0.5 <= p <= 1:
        raise ValueError(f"p must be a number in [-0.5, 1], got {p!r}")
    table = _set(coefficients)
    if p == 1:
        return 1.0, *[0.0] * int(table["K"])
    x = _points(table["lo"], table["hi"])
    G = torch.stack(scalar_iterates(x, _steps(coefficients)), 1) / x[:, None] ** p
    q, best, least = torch.full_like(x, 1 / len(x)), torch.empty(0), float("inf")
    for _ in range(_ROUNDS):
        root = q.sqrt()[:, None]
        w = torch.linalg.lstsq(root * G, root).solution
        r = (G @ w - 1).abs().squeeze(1)
        if r.max().item() < least:
            best, least = w, r.max().item()
        q = q * (r / r.max() + 1e-3)
        q = q / q.sum()
    return tuple(best.flatten().tolist())


def scalar_iterates(x: Tensor, steps: Steps) -> list[Tensor]:
    """What K iterations make of singular values x: f_0 = x, f_(k+1) = a_k f_k + b_k f_k^3 + c_k f_k^5."""
    f = [x]
    for a, b, c in steps:
        square = f[-1] ** 2
        f.append(f[-1] * (a + square * (b + square * c)))
    return f


def _points(lo: float, hi: float) -> Tensor:
    """Points in equal ratios up to 0.5 and in equal distances from there, whatever the default device."""
    share = torch.linspace(0, 1, _GRID + 1, dtype=torch.float64, device="cpu")
    return torch.cat([lo * (0.5 / lo) ** share[:-1], 0.5 + (hi - 0.5) * share])


def _steps(coefficients: str) -> Steps:
    return tuple((a, b, c) for a, b, c in _set(coefficients)["steps_abc"])


def _set(coefficients: str) -> dict[str, Any]:
    if coefficients not in MIX_SETS:
        raise ValueError(f"coefficients must be one of {', '.join(MIX_SETS)}, got {coefficients!r}")
    table: dict[str, Any] = _sets()[coefficients]
    return table


@functools.lru_cache
def _sets() -> dict[str, Any]:
    sets: dict[str, Any] = json.loads(Path(__file__).with_name("mix_power.json").read_text("utf-8"))["sets"]
    return sets
