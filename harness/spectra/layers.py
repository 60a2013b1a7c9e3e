"""The spectrum of every layer of a model: exponent, norms and what is to be known beside them.

Exponents of unlike shapes must not be compared: alpha of random numbers is 2.1 for a square matrix and 10 for
the embedding of a small LLaMA. So embeddings and heads are left out unless asked for, and `random_baseline`
says what noise of the same shape gives.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from htbench.harness.spectra import tail
from htbench.harness.spectra.esd import CONV_NORM, Floats, Weight, esd
from htbench.harness.spectra.esd import (
    singular_values as singular_values,  # that of updates goes with the layers
)
from htbench.harness.spectra.selection import Layer, Weights, select_layers

_NOISE = 1.2e-7  # relative size of a singular value that float32 can't tell from zero, per dimension


@dataclass(frozen=True)
class LayerSpectrum:
    """One layer.

    Attributes:
        name: of the weight, without what wrappers of the model put before it.
        aliases: its other names, if it is tied.
        block: number of its block, from 0; None outside of blocks.
        kind: one of `names.KINDS`.
        rows, cols: as stored.
        kernel: positions of a convolution's kernel, 1 for a matrix.
        n_eigs: eigenvalues, those of all positions together.
        alpha, D, sigma, xmin, n_tail: as in `tail.PLFit`, of the eigenvalues that `esd` gives.
        alpha_random: alpha of Gaussian numbers of the same shape; nan if not asked for.
        sigma_max: greatest singular value; of a kernel, of any of its matrices.
        fro: Frobenius norm.
        lambda_max, sum_lambda: their squares, which other programs call spectral_norm and norm.
        stable_rank: sum_lambda / lambda_max.
        entropy: of the eigenvalues as shares of their sum, over its greatest, ln n_eigs; 1 if all are equal,
            0 if only one is not zero (Roy and Vetterli, "The effective rank", EUSIPCO 2007). It needs no fit.
        flags: as in `tail.PLFit`; and "rank_deficient".
    """

    name: str
    aliases: tuple[str, ...]
    block: int | None
    kind: str
    rows: int
    cols: int
    kernel: int
    n_eigs: int
    alpha: float
    D: float
    sigma: float
    xmin: float
    n_tail: int
    alpha_random: float
    sigma_max: float
    fro: float
    lambda_max: float
    sum_lambda: float
    stable_rank: float
    entropy: float
    flags: tuple[str, ...]


def measure(
    weights: Weights,
    *,
    method: str = "hill_mid",
    include: str | None = "hidden",
    exclude: str | Iterable[str] | None = None,
    random_baseline: bool = False,
) -> list[LayerSpectrum]:
    """The spectrum of every layer, in the order of the weights, which stay as and where they are.

    Args:
        weights: a module, or its weights by name, as tensors, as arrays or in a file.
        method: one of `tail.METHODS`.
        include, exclude: as of `select_layers`.
        random_baseline: fill `alpha_random` in.

    Raises:
        ValueError: unknown method, or a weight that is sharded or has no data.
    """
    if method not in tail.METHODS:
        raise ValueError(f"unknown method {method!r}; known are {', '.join(tail.METHODS)}")
    layers = select_layers(weights, include, exclude)
    return [spectrum(layer, method=method, random_baseline=random_baseline) for layer in layers]


def layer_names(weights: Weights, *, include: str = "hidden") -> list[str]:
    """The names of the layers that `measure` would measure, in its order, without measuring them."""
    return [layer.name for layer in select_layers(weights, include)]


def spectrum(layer: Layer, *, method: str = "hill_mid", random_baseline: bool = False) -> LayerSpectrum:
    """The spectrum of one layer.

    Raises:
        ValueError: the weight is sharded or has no data.
    """
    try:
        weight = layer.read()
        evals, fit = _fit(weight, method)
    except ValueError as error:
        raise ValueError(f"{layer.name}: {error}") from None
    rows, cols, *kernel = weight.shape
    positions = math.prod(kernel)
    deficient = bool(evals[0] <= _cut(evals, rows, cols))  # nan is not
    return LayerSpectrum(
        name=layer.name,
        aliases=layer.aliases,
        block=layer.block,
        kind=layer.kind,
        rows=rows,
        cols=cols,
        kernel=positions,
        n_eigs=len(evals),
        alpha=fit.alpha,
        D=fit.D,
        sigma=fit.sigma,
        xmin=fit.xmin,
        n_tail=fit.n_tail,
        alpha_random=random_alpha(rows, cols, positions, method) if random_baseline else math.nan,
        **_norms(evals),
        flags=(*fit.flags, *["rank_deficient"] * deficient),
    )


@functools.lru_cache(maxsize=256)
def random_alpha(rows: int, cols: int, kernel: int = 1, method: str = "hill_mid") -> float:
    """alpha of Gaussian numbers of this shape, always the same ones."""
    generator = np.random.default_rng((rows, cols, kernel))
    shape = (rows, cols) if kernel == 1 else (rows, cols, kernel)
    return _fit(generator.standard_normal(shape), method)[1].alpha


def _fit(weight: Weight, method: str) -> tuple[Floats, tail.PLFit]:
    """All eigenvalues, those of a kernel without its factor, and the fit, with it."""
    evals = esd(weight, conv_norm=1.0)
    factor = 1.0 if weight.ndim == 2 else CONV_NORM
    cut = factor * _cut(evals, *weight.shape[:2])
    return evals, tail.fit_alpha(factor * evals, method, cut=cut)


def _cut(evals: Floats, rows: int, cols: int) -> float:
    """What an eigenvalue must exceed to be more than the rounding of the greatest one; nan from nan."""
    return float((min(rows, cols) * _NOISE) ** 2 * evals[-1])


def _norms(evals: Floats) -> dict[str, float]:
    with np.errstate(over="ignore"):
        greatest, total = float(evals[-1]), float(evals.sum())
    entropy = math.nan
    if 0 < total < math.inf and len(evals) > 1:
        shares = evals / total
        positive = shares[shares > 0]
        entropy = float(-(positive * np.log(positive)).sum() / math.log(len(shares)))
    return {
        "sigma_max": math.sqrt(greatest),
        "fro": math.sqrt(total),
        "lambda_max": greatest,
        "sum_lambda": total,
        "stable_rank": total / greatest if greatest > 0 else math.nan,
        "entropy": entropy,
    }
