"""Orthonormal bases of a gradient, in float32 at least, for the optimizers that work in a basis of their own.

LAPACK raises on NaN and inf. A basis of NaN instead makes the weights NaN, so that a diverging run ends as a
divergence.
"""

from contextlib import suppress

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """Return x in float32, or in its own dtype where that is more precise."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def finite(A: Tensor) -> Tensor:
    """Say of each matrix whether all of it is finite, as a (..., 1, 1) tensor: no branch, no device sync."""
    return A.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)


def eigenvectors(A: Tensor) -> Tensor:
    """Return the eigenvectors of symmetric A as columns, by descending eigenvalue; NaN for NaN and inf."""
    sound = finite(A)
    return eigen(A.where(sound, 0))[1].flip(-1).where(sound, torch.nan)


def eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of finite symmetric A in ascending order, and the eigenvectors as columns.

    The Gram matrix of a gradient of low rank, such as that of an embedding in which few tokens occurred, has
    many equal eigenvalues. That can be too much for float32: LAPACK then raises, or returns NaN in silence. A
    GPU would have to be waited for to see that, and gets float64 at once.
    """
    if not A.is_cuda:
        with suppress(torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            L, V = torch.linalg.eigh(A)
            if V.isfinite().all():
                return L, V
    L, V = torch.linalg.eigh(A.double())
    return L.to(A.dtype), V.to(A.dtype)


def singular_vectors(X: Tensor, rank: int, right: bool) -> Tensor:
    """Return up to `rank` leading singular vectors of X as columns; NaN if X is not finite."""
    sound = finite(X)
    U, _, Vh = torch.linalg.svd(X.where(sound, 0), full_matrices=False)
    leading: Tensor = (Vh.mT if right else U)[..., :rank]
    return leading.where(sound, torch.nan).contiguous()  # not a view that keeps, and would save, all vectors
