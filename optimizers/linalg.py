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
    """Return the eigenvectors of a symmetric A as columns, by descending eigenvalue; NaN if A is not finite.

    The Gram matrix of a gradient of low rank, such as that of an embedding in which few tokens occurred, has
    many equal eigenvalues. That can be too much for float32: LAPACK then raises, or returns NaN in silence.
    """
    if not A.isfinite().all():
        return torch.full_like(A, torch.nan)
    try:
        V: Tensor = torch.linalg.eigh(A).eigenvectors
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        V = torch.full_like(A, torch.nan)
    if not V.isfinite().all():
        V = torch.linalg.eigh(A.double()).eigenvectors.to(A.dtype)
    return V.flip(1)


def singular_vectors(X: Tensor, rank: int, right: bool) -> Tensor:
    """Return up to `rank` leading singular vectors of X as columns; NaN if X is not finite."""
    if not X.isfinite().all():
        return X.new_full((X.shape[int(right)], min(rank, *X.shape)), torch.nan)
    U, _, Vh = torch.linalg.svd(X, full_matrices=False)
    leading: Tensor = (Vh.mT if right else U)[:, :rank]
    return leading.contiguous()  # not a view that keeps, and would save, all of the vectors
