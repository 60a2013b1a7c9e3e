"""Maps of a matrix's singular values that factor the matrix: exact, and the oracle of the cheaper ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def svd_power(M: Tensor, p: float) -> Tensor:
    """U diag(S^p) V^T from a thin SVD in float32 or better: p = 0 gives U V^T, p = 1 gives M.

    Homogeneous of degree p in M. As in the released code, S has no floor: p = 0 gives null directions weight
    1, and a small p gives the rounding noise in them a weight near 1.

    Args:
        M: (..., m, n), one matrix or a batch of them.
        p: exponent of the singular values, in [0, 1].

    Returns:
        as many matrices in the dtype of M; all NaN for one that is not finite, so that a diverging run ends
        as a divergence instead of with the error that LAPACK raises.

    Raises:
        ValueError: p is out of its range.

    Source: HTMuon paper, Algorithm "HTMuon", the line O = U S^p V^T.
    """
    check_power(p, "svd_power")
    return _map_singular_values(M, lambda S: S.pow(p))


def rank_power(M: Tensor, exponent: float) -> Tensor:
    """U diag(i^-exponent) V^T: singular values by rank alone, i = 1 for the largest to min(m, n).

    As scale-free as Muon. A null direction has a rank too, so what it gets is a matter of rounding.

    Args:
        M: (..., m, n), one matrix or a batch of them.
        exponent: alpha in the paper, 0.25 there.

    Returns:
        as many matrices in the dtype of M; all NaN for one that is not finite.

    Source: HTMuon paper, Algorithm "HTMuon_HT".
    """

    def weights(S: Tensor) -> Tensor:
        return torch.arange(1, S.shape[-1] + 1, dtype=S.dtype, device=S.device).pow(-exponent)

    return _map_singular_values(M, weights)


def gram_power(M: Tensor, p: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """(M M^T)^((p-1)/2) M, `svd_power` by the eigenvalues of the smaller Gram matrix instead of an SVD.

        U diag(L) U^T = M M^T,   floor = 4 eps max(L)      eps of `dtype`
        O = U diag(max(L, floor)^((p-1)/2)) U^T M

    Squaring costs half of the digits: a singular value below 2 sqrt(eps) of the largest (3e-8 in float64,
    7e-4 in float32) drowns in the rounding of M M^T. The floor makes the map linear there instead of letting
    the negative power lift noise, so a null direction gets 0 (to 1e-7 in float64) where `svd_power` gives it
    1 for p = 0 and noise for p > 0. Relative error ||O - U S^p V^T|| / ||U S^p V^T|| for p = 0.125, measured:

        singular values of 256 x 256      svd_power, float32     float64     float32
        Gaussian matrix                   2e-6                   5e-14       5e-5
        k^-1                              3e-6                   4e-13       4e-3
        k^-2                              2e-3                   1e-8        0.65
        log-spaced from 1 to 1e-9         0.13                   0.06        0.32

    Args:
        M: (..., m, n), one matrix or a batch of them.
        p: exponent of the singular values, in [0, 1].
        dtype: of all the arithmetic. In float32 it is only for matrices without small singular values, and
            not for momenta of the first steps; squares of entries must stay within its range.

    Returns:
        as many matrices in the dtype of M; zero for a zero M; all NaN for an M M^T that is not finite.

    Raises:
        ValueError: p is out of its range.

    Source: HTMuon paper, Algorithm "HTMuon", with another way to compute O; ours.
    """
    check_power(p, "gram_power")
    if M.shape[-2] > M.shape[-1]:
        return gram_power(M.mT, p, dtype).mT
    X = M.to(dtype)
    A = X @ X.mT
    finite = _finite(A)
    L, U = torch.linalg.eigh(A.where(finite, 0))  # raises at NaN
    floor = (4 * torch.finfo(dtype).eps * L[..., -1:]).clamp(min=torch.finfo(dtype).tiny)
    D = L.maximum(floor).pow((p - 1) / 2)
    O: Tensor = (U * D.unsqueeze(-2)) @ U.mT @ X  # noqa: E741 - the paper's symbol
    return O.where(finite, torch.nan).to(M.dtype)


def check_power(p: float, name: str, low: float = -0.5) -> None:
    """Refuse a power that the map `name` does not take.

    Raises:
        ValueError: p is not in [low, 1].
    """
    if not low <= p <= 1:
        raise ValueError(f"p must be a finite number in [{low:g}, 1] for the map {name}, got {p!r}")


def _map_singular_values(M: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
    """U diag(f(S)) V^T."""
    if M.shape[-2] < M.shape[-1]:  # LAPACK prefers tall matrices: 512 x 1376 takes 117 ms instead of 187 ms
        return _map_singular_values(M.mT, f).mT
    finite = _finite(M)
    X = M.to(torch.promote_types(M.dtype, torch.float32)).where(finite, 0)  # LAPACK raises at NaN
    U, S, Vh = torch.linalg.svd(X, full_matrices=False)
    O: Tensor = U * f(S).unsqueeze(-2) @ Vh  # noqa: E741 - the paper's symbol
    return O.where(finite, torch.nan).to(M.dtype)


def _finite(M: Tensor) -> Tensor:
    """Say of each matrix whether all of it is finite, as a (..., 1, 1) tensor: no branch, no device sync."""
    return M.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
