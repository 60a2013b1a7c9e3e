"""The spectrum of every layer of a model: exponent, norms and what is to be known beside them.

Exponents of unlike shapes must not be compared: alpha of random numbers is 2.1 for a square matrix and 10 for
the embedding of a small LLaMA. So embeddings and heads are left out unless asked for, and `random_baseline`
says what noise of the same shape gives.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

import numpy as np

from harness.spectra import names, tail
from harness.spectra.esd import Floats, Weight, esd, matrices, singular_values
from harness.spectra.farms import farms_evals, is_smaller

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

__all__ = [
    "METHODS",
    "LayerSpectrum",
    "layer_names",
    "layer_table",
    "measure",
    "random_alpha",
    "singular_values",
]

METHODS: Final = (*tail.METHODS, "farms")

_NOISE = 1.2e-7  # relative size of a singular value that float32 can't tell from zero, per dimension

Weights: TypeAlias = Union["Mapping[str, Weight]", "nn.Module"]


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
        alpha, D, sigma, xmin, n_tail: as in `tail.PLFit`.
        alpha_random: alpha of Gaussian numbers of the same shape; nan if not asked for.
        sigma_max: greatest singular value; of a kernel, of any of its matrices.
        fro: Frobenius norm.
        lambda_max, sum_lambda: their squares, which other programs call spectral_norm and norm.
        stable_rank: sum_lambda / lambda_max.
        flags: as in `tail.PLFit`; and "rank_deficient", "small_windows" (farms).
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
    D: float  # the field's symbol
    sigma: float
    xmin: float
    n_tail: int
    alpha_random: float
    sigma_max: float
    fro: float
    lambda_max: float
    sum_lambda: float
    stable_rank: float
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
        weights: a module, or its weights by name, as tensors or as arrays.
        method: one of `METHODS`.
        include: "hidden", the matrices and kernels without embeddings and heads; "all"; or a pattern of
            names, such as "*.q_proj.weight".
        exclude: patterns of names to leave out.
        random_baseline: fill `alpha_random` in.

    Raises:
        ValueError: unknown method, or a weight that is sharded or has no data.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known are {', '.join(METHODS)}")
    return [
        _layer(one, method, random_baseline)
        for one in _chosen(_by_name(weights), include or "hidden", exclude)
    ]


def layer_names(weights: Weights, *, include: str = "hidden") -> list[str]:
    """The names of the layers that `measure` would measure, in its order, without measuring them."""
    return [one.name for one in _chosen(_by_name(weights), include, None)]


def layer_table(weights: Weights, **options: Any) -> pd.DataFrame:
    """`measure` as a table, one row per layer, with the attributes of `LayerSpectrum` as columns."""
    import pandas as pd

    columns = [field.name for field in dataclasses.fields(LayerSpectrum)]
    rows = [dataclasses.asdict(layer) for layer in measure(weights, **options)]
    return pd.DataFrame(rows, columns=columns)


@functools.lru_cache(maxsize=256)
def random_alpha(rows: int, cols: int, kernel: int = 1, method: str = "hill_mid") -> float:
    """alpha of Gaussian numbers of this shape, always the same ones."""
    generator = np.random.default_rng((rows, cols, kernel))
    shape = (rows, cols) if kernel == 1 else (rows, cols, kernel)
    return _fit(generator.standard_normal(shape), method)[1].alpha


# --- which layers ---


@dataclass(frozen=True)
class _Found:
    name: str
    aliases: tuple[str, ...]
    block: int | None
    kind: str
    weight: Weight


def _by_name(weights: Weights) -> Mapping[str, Weight]:
    return weights if isinstance(weights, Mapping) else weights.state_dict()


def _chosen(weights: Mapping[str, Weight], include: str, exclude: str | Iterable[str] | None) -> list[_Found]:
    unwanted = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())
    return [
        one
        for one in _found(weights)
        if _wanted(one, include) and not any(fnmatchcase(one.name, pattern) for pattern in unwanted)
    ]


def _wanted(one: _Found, include: str) -> bool:
    if include == "hidden":
        return one.kind not in ("embed", "head")
    return include == "all" or fnmatchcase(one.name, include)


def _found(weights: Mapping[str, Weight]) -> Iterator[_Found]:
    """All matrices and kernels, each tied one once."""
    same: dict[object, list[str]] = {}
    for name, weight in weights.items():
        if _has_spectrum(name, weight):
            same.setdefault(_storage(name, weight), []).append(name)
    blocks = names.blocks(names.clean(name) for name in weights)
    for first, *others in same.values():
        name, weight = names.clean(first), weights[first]
        kind = names.kind(name, tuple(weight.shape))
        yield _Found(name, tuple(map(names.clean, others)), blocks[name], kind, weight)


def _has_spectrum(name: str, weight: Weight) -> bool:
    """Whether it is a weight of a layer: no bias, no statistics, no mask, no integers."""
    if name.endswith("_flat_param"):
        raise ValueError(
            f"'{name}' holds the weights of several layers in one vector (FSDP); gather them first"
        )
    if name.rpartition(".")[2] in ("bias", "masked_bias") or not 2 <= weight.ndim <= 4:
        return False
    return min(weight.shape) > 0 and "float" in str(weight.dtype)


def _storage(name: str, weight: Weight) -> object:
    """Equal for two names of one weight."""
    if isinstance(weight, np.ndarray):
        return weight.__array_interface__["data"][0], weight.shape, weight.strides
    if weight.is_meta or hasattr(weight, "full_tensor"):
        return name
    return weight.data_ptr(), weight.device, tuple(weight.shape), weight.stride()


# --- one layer ---


def _layer(one: _Found, method: str, random_baseline: bool) -> LayerSpectrum:
    try:
        evals, fit = _fit(one.weight, method)
    except ValueError as error:
        raise ValueError(f"{one.name}: {error}") from None
    rows, cols, *kernel = one.weight.shape
    positions = math.prod(kernel)
    greatest, total = (float(evals[-1]), float(evals.sum())) if len(evals) else (math.nan, math.nan)
    flags = fit.flags
    if np.count_nonzero(evals <= _cut(rows, cols, evals)):
        flags = (*flags, "rank_deficient")
    if method == "farms" and is_smaller((rows, cols)):
        flags = (*flags, "small_windows")
    return LayerSpectrum(
        name=one.name,
        aliases=one.aliases,
        block=one.block,
        kind=one.kind,
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
        sigma_max=math.sqrt(greatest),
        fro=math.sqrt(total),
        lambda_max=greatest,
        sum_lambda=total,
        stable_rank=total / greatest if greatest > 0 else math.nan,
        flags=flags,
    )


def _fit(weight: Weight, method: str) -> tuple[Floats, tail.PLFit]:
    """All eigenvalues, unscaled, and the fit."""
    evals = esd(weight, conv_norm=1.0)
    rows, cols = weight.shape[:2]
    cut = _cut(rows, cols, evals)
    if method != "farms":
        return evals, tail.fit_alpha(evals, method, cut=cut)
    pooled = np.concatenate([farms_evals(matrix) for matrix in matrices(weight)])
    return evals, tail.fit_alpha(pooled, cut=cut)


def _cut(rows: int, cols: int, evals: Floats) -> float:
    """What an eigenvalue must exceed to be more than rounding of the greatest one.

    nan in, nan out: nothing is below it.
    """
    return float((min(rows, cols) * _NOISE) ** 2 * evals[-1]) if len(evals) else 0.0
