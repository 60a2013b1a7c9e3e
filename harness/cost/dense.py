"""Floating point operations of dense decompositions, which `torch.utils.flop_counter` does not count.

Source: Golub and Van Loan, "Matrix Computations" (4th edition, 2013): QR in 5.2.2 (Householder) and 5.1.6 (the
thin factor is formed), the symmetric eigenproblem in 8.3, the thin SVD in figure 8.6.1. LAPACK's algorithms for
torch divide and conquer, so that they may need fewer. They run far below the rate of matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

aten = torch.ops.aten


def qr(*shape: int) -> int:
    """Of the thin QR of (..., m, n) with Q: 4 k^2 (l - k/3), with k the shorter side and l the longer."""
    *batch, m, n = shape
    k, longer = min(m, n), max(m, n)
    return math.prod(batch) * round(4 * k * k * (longer - k / 3))


def eigh(*shape: int) -> int:
    """Of eigenvalues and -vectors of symmetric (..., n, n): 9 n^3."""
    *batch, n, _ = shape
    return math.prod(batch) * 9 * n**3


def svd(*shape: int) -> int:
    """Of the thin SVD of (..., m, n): 6 l k^2 + 20 k^3, with k the shorter side and l the longer."""
    *batch, m, n = shape
    k, longer = min(m, n), max(m, n)
    return math.prod(batch) * (6 * longer * k * k + 20 * k**3)


DECOMPOSITIONS: Final[dict[Any, tuple[str, Callable[..., int]]]] = {
    aten.linalg_qr: ("qr", qr),
    aten._linalg_eigh: ("eigh", eigh),
    aten._linalg_svd: ("svd", svd),
}
