"""Empirical spectral densities: the squared singular values of weights, in float64, from torch or numpy.

A weight is read in float64, because torch has no SVD of bfloat16 and the small eigenvalues of a float32 Gram
matrix are noise. The Gram matrix of the smaller side in float64 has relative errors of 1e-9 where an SVD in
float32 has 7e-5, and takes half of its time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
Weight: TypeAlias = Union["Tensor", "NDArray[np.floating]"]

CONV_NORM = 0.5  # the literature's factor on the eigenvalues of kernels; alpha does not depend on it


def esd(weight: Weight, *, conv_norm: float = CONV_NORM) -> Floats:
    """All eigenvalues of W W^T on the smaller side: squared singular values, not divided by anything.

    A kernel (out, in, ...) is a stack of matrices (out, in), one per position; their eigenvalues are pooled
    and multiplied by `conv_norm`. That is not the matrix (out, in * positions) which the optimizers see.

    Args:
        weight: (out, in), (out, in, length) or (out, in, height, width), on any device; it is not changed.
        conv_norm: factor on the eigenvalues of a kernel.

    Returns:
        float64[positions * min(out, in)], ascending; all nan if a weight is nan or inf.

    Raises:
        ValueError: the weight has not 2 to 4 dimensions, or no data of its own (a sharded or meta tensor).
    """
    parts = [eigenvalues(matrix) for matrix in matrices(weight)]
    evals = np.sort(np.concatenate(parts)) if len(parts) != 1 else parts[0]
    return evals if weight.ndim == 2 else evals * conv_norm


def singular_values(matrix: Weight) -> Floats:
    """float64[min(rows, cols)], descending, by an SVD in float64; all nan if an entry is nan or inf.

    Raises:
        ValueError: the weight has not two dimensions, or no data of its own.
    """
    if matrix.ndim != 2:
        raise ValueError(f"singular values need a matrix, not a tensor of shape {tuple(matrix.shape)}")
    values = float64(matrix)
    if not np.isfinite(values).all():
        return np.full(min(values.shape), np.nan)
    return np.asarray(np.linalg.svd(values, compute_uv=False), dtype=np.float64)


def matrices(weight: Weight) -> Iterator[Weight]:
    """The matrix, or the matrices (out, in) of all positions of a kernel.

    Raises:
        ValueError: the weight has not 2 to 4 dimensions, or no data of its own.
    """
    _check(weight)
    if not 2 <= weight.ndim <= 4:
        raise ValueError(f"a spectrum needs 2 to 4 dimensions, not a tensor of shape {tuple(weight.shape)}")
    flat = weight.reshape(*weight.shape[:2], math.prod(weight.shape[2:]))
    return (flat[:, :, position] for position in range(flat.shape[2]))


def float64(weight: Weight) -> Floats:
    """The weight as a numpy array in float64, where it is not one already a copy.

    Raises:
        ValueError: it is a shard of a distributed tensor, or has no data.
    """
    _check(weight)
    if isinstance(weight, np.ndarray):
        return weight.astype(np.float64, copy=False)
    values: Floats = weight.detach().cpu().double().numpy()
    return values


def _check(weight: Weight) -> None:
    if hasattr(weight, "full_tensor") or hasattr(weight, "local_shards"):
        raise ValueError("the weight is a sharded tensor; gather it first, for instance with full_tensor()")
    if getattr(weight, "is_meta", False):
        raise ValueError("the weight is a meta tensor, which has a shape and no numbers")


def eigenvalues(matrix: Weight) -> Floats:
    """Squared singular values, ascending, from the Gram matrix; those that rounding made negative are zero.

    Returns:
        float64[min(rows, columns)]; all nan if an entry is nan or inf.
    """
    gram = _gram(matrix)  # the copy in float64 is gone before LAPACK makes one of the Gram matrix
    if not np.isfinite(np.diagonal(gram)).all():  # each weight is in one entry of the diagonal, squared
        return np.full(len(gram), np.nan)
    evals: Floats = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    return evals


def _gram(weight: Weight) -> Floats:
    values = float64(weight)
    if values.shape[0] > values.shape[1]:
        values = values.T
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found on the diagonal
        gram: Floats = values @ values.T  # of the same array: numpy takes syrk, half the operations
    return gram
