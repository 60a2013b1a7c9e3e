"""Floating point operations of dense decompositions, which `torch.utils.flop_counter` does not count.

Source: Golub and Van Loan, "Matrix Computations" (4th edition, 2013): 5.2.2 and 5.1.6 for QR by Householder
reflections whose thin Q is formed, 8.3 for the symmetric eigenproblem, figure 8.6.1 for the thin SVD. The
routines of LAPACK that torch calls divide and conquer, and may need fewer. All of them run far below the rate
of matrix products.
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
