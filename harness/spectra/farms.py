"""FARMS: the spectrum of many windows of one aspect ratio, so that alpha of unlike shapes can be compared.

alpha of a random matrix depends on its aspect ratio alone. Windows of 100 x 200 have the same one in every
layer (Hu et al. 2025, https://arxiv.org/abs/2506.06280; repository HUST-AI-HYZ/FARMS).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.spectra.esd import Floats, Weight, eigenvalues, float64

ROWS, RATIO, OPS = 100, 2.0, 10


def farms_evals(weight: Weight, rows: int = ROWS, ratio: float = RATIO, ops: int = OPS) -> Floats:
    """Eigenvalues of all windows of a matrix, pooled.

    A matrix that is smaller than a window has windows of another aspect ratio, as the authors' program takes
    them: of fewer rows, and of a matrix with c columns too few its last c columns.

    Args:
        weight: (out, in).
        rows: of a window.
        ratio: columns / rows of a window.
        ops: most windows along each dimension, spread evenly.

    Returns:
        float64[windows * min(rows, columns)], ascending; all nan if a weight is nan or inf.

    Raises:
        ValueError: the weight is not a matrix, or has no data of its own.
    """
    if weight.ndim != 2:
        raise ValueError(f"windows need a matrix, not a tensor of shape {tuple(weight.shape)}")
    values = float64(weight)
    if not np.isfinite(values).all():
        return np.full(min(values.shape), np.nan)
    rows = min(rows, *values.shape)
    columns = int(rows * ratio)
    parts = [
        eigenvalues(values[top : top + rows, left : left + columns])
        for top in _starts(values.shape[0], rows, ops)
        for left in _starts(values.shape[1], columns, ops)
    ]
    return np.sort(np.concatenate(parts))


def is_smaller(shape: tuple[int, ...], rows: int = ROWS, ratio: float = RATIO) -> bool:
    """Whether a matrix has not even one whole window, so that its windows have another aspect ratio."""
    return shape[0] < rows or shape[1] < int(rows * ratio)


def _starts(size: int, window: int, ops: int) -> Iterator[int]:
    """Where windows begin; a negative number counts from the end, as in a slice."""
    room = size - window
    step = max(1, room // max(1, ops - 1))
    count = min(ops, max(1, room // step + 1))
    return (min(index * step, room) for index in range(count))
