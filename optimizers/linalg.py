"""Orthonormal bases of a gradient, in float32 at least, for the optimizers that work in a basis of their own.

LAPACK raises on NaN and inf. A basis of NaN instead makes the weights NaN, so that a diverging run ends as a
divergence.
"""

from __future__ import annotations

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """Return x in float32, or in its own dtype where that is more precise."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def eigenvectors(A: Tensor) -> Tensor:
    """Return the eigenvectors of a symmetric A as columns, by descending eigenvalue; NaN for NaN and inf."""
    return eigen(A)[1].flip(1) if A.isfinite().all() else torch.full_like(A, torch.nan)


def eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of a finite symmetric A in ascending order, and the eigenvectors as columns.

    The Gram matrix of a gradient of low rank, such as that of an embedding in which few tokens occurred, has
    many equal eigenvalues. That can be too much for float32: LAPACK then raises, or returns NaN in silence.
    """
    try:
        L, V = torch.linalg.eigh(A)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        L, V = A[0], torch.full_like(A, torch.nan)
    if not V.isfinite().all():
        L, V = torch.linalg.eigh(A.double())
    return L.to(A.dtype), V.to(A.dtype)


def singular_vectors(X: Tensor, rank: int, right: bool) -> Tensor:
    """Return up to `rank` leading singular vectors of X as columns; NaN if X is not finite."""
    if not X.isfinite().all():
        return X.new_full((X.shape[int(right)], min(rank, *X.shape)), torch.nan)
    U, _, Vh = torch.linalg.svd(X, full_matrices=False)
    leading: Tensor = (Vh.mT if right else U)[:, :rank]
    return leading.contiguous()  # not a view that keeps, and would save, all of the vectors
