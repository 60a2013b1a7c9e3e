"""Orthonormal bases of a gradient, in float32 at least, for the optimizers that work in a basis of their own.

LAPACK raises on NaN and inf. A basis of NaN instead makes the weights NaN, so that a diverging run ends as a
divergence.
"""

import math
from contextlib import suppress

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """Return x in float32, or in its own dtype where that is more precise."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


_WITH_FLOAT64 = ("cpu", "cuda", "meta")


def finite(A: Tensor) -> Tensor:
    """Say of each matrix whether all of it is finite, as a (..., 1, 1) tensor: no branch, no device sync."""
    return A.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)


def gram_basis(A: Tensor) -> Tensor:
    """Return the eigenvectors of A A^T as columns, by descending eigenvalue; NaN for NaN and inf.

    A (..., n, p) of rank r < n, such as a tall gradient, leaves n - r of them open, and an eigensolver has
    them follow the rounding of A. Here fixed random vectors are made orthogonal to the others instead: the
    columns, but for their signs, depend on A as smoothly as its singular vectors. Float64 tells the smallest
    of these, whose squares float32 would lose, from none. Of A = 0 the basis is that of the axes.
    """
    sound, n = finite(A), A.shape[-2]
    X = A.where(sound, 0)
    X = (X if X.device.type in _WITH_FLOAT64 else X.cpu()).double()
    L, V = (x.flip(-1) for x in eigen(X @ X.mT))
    eps = [torch.finfo(x.dtype).eps for x in (A, X)]
    least = L[..., :1] * max((max(A.shape[-2:]) * eps[0]) ** 2, n * eps[1])  # what rounding can make of zero
    seed = torch.Generator().manual_seed(0)
    rest = torch.randn(n, n, generator=seed, dtype=X.dtype, device="cpu").to(X.device)
    rest = torch.where(L[..., :1, None] > 0, rest, torch.eye(n, dtype=X.dtype, device=X.device))
    Q: Tensor = torch.linalg.qr(V.where((L > least).unsqueeze(-2), rest)).Q
    return Q.to(A.dtype).to(A.device).where(sound, torch.nan)


def hold_columns(Y: Tensor, Q: Tensor, L: Tensor) -> Tensor:
    """Add a little of Q to Y, its product with a Gram matrix that has the trace of L, in place.

    It is as if the matrix had s on its diagonal, which leaves its eigenvectors. With s as small as the
    rounding of the sums, a column on which it is zero stays where it is; rounding alone would send it
    anywhere.
    """
    s = L.diagonal(dim1=-2, dim2=-1).sum(-1) * (torch.finfo(L.dtype).eps * math.sqrt(Q.shape[-2]) / 4)
    return Y.addcmul_(Q, s[..., None, None])


def eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of a finite Gram matrix A in ascending order, and the eigenvectors as columns.

    That of a gradient of low rank, such as that of an embedding in which few tokens occurred, has many equal
    eigenvalues. That can be too much for LAPACK's `syevd`, which divides and conquers: in float32 it raises,
    or returns NaN in silence. In float64 it raises, too: MKL 2024.2 below torch 2.13 did so for 5 to 142 of
    600 matrices X X^T (512, 512) with 10, 21 or 40 rows of X (512, 32) that are not zero, by processor and
    threads. An SVD of these failed never. A GPU would have to be waited for, and gets float64 at once.

    Args:
        A: (..., n, n). Each matrix of a stack has the numbers that it has alone.
    """
    if A.is_cuda:
        L, V = torch.linalg.eigh(A.double())
        return L.to(A.dtype), V.to(A.dtype)
    for dtype in dict.fromkeys((A.dtype, torch.float64)):
        with suppress(torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            L, V = torch.linalg.eigh(A.to(dtype))
            if V.isfinite().all():
                return L.to(A.dtype), V.to(A.dtype)
        if A.ndim > 2:
            L, V = (torch.stack(parts) for parts in zip(*map(eigen, A), strict=True))
            return L, V
    V, L, _ = torch.linalg.svd(A.double())
    return L.flip(-1).to(A.dtype), V.flip(-1).to(A.dtype)


def singular_vectors(X: Tensor, rank: int, right: bool) -> Tensor:
    """Return up to `rank` leading singular vectors of X as columns; NaN if X is not finite."""
    sound = finite(X)
    U, _, Vh = torch.linalg.svd(X.where(sound, 0), full_matrices=False)
    leading: Tensor = (Vh.mT if right else U)[..., :rank]
    return leading.where(sound, torch.nan).contiguous()  # not a view that keeps, and would save, all vectors
