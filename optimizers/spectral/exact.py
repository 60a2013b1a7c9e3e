"""Maps of a matrix's singular values that factor the matrix: exact, and the oracle of the cheaper ones."""

from collections.abc import Callable

import torch
from torch import Tensor

from htbench.optimizers.linalg import eigen, finite
from htbench.optimizers.spectral.products import gram

_LARGE = 0.02  # share of the largest singular value down to which one Gram matrix serves in `graded_power`


def svd_power(M: Tensor, p: float) -> Tensor:
    """U diag(S^p) V^T from a thin SVD in float32 or better: p = 0 gives U V^T, p = 1 gives M.

    Homogeneous of degree p in M. As in the released code, S has no floor for p >= 0: p = 0 gives null
    directions weight 1, and a small p gives the rounding noise in them a weight near 1. A negative p is
    bounded: the map is linear below what the SVD resolves, 4 eps max(S), and a zero M stays zero.

    Args:
        M: (..., m, n), one matrix or a batch of them.
        p: exponent of the singular values, in [-0.5, 1].

    Returns:
        as many matrices in the dtype of M; all NaN for one that is not finite, so that a diverging run ends
        as a divergence instead of with the error that LAPACK raises.

    Raises:
        ValueError: p is out of its range.

    Source: HTMuon paper, Algorithm "HTMuon", the line O = U S^p V^T.
    """
    check_power(p, "svd_power")
    return _map_singular_values(M, lambda S: S.pow(p) if p >= 0 else _bounded_power(S, p))


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
    1 for p = 0 and noise for p > 0. The product with M is in the dtype of M, or in float32: in float64 it
    would take as long as half of the eigenvalues, to no use. Relative error ||O - U S^p V^T|| / ||U S^p V^T||
    for p = 0.125 and M in float32, measured:

        singular values of 256 x 256      svd_power   float64   float32   `graded_power`
        Gaussian matrix                   2e-6       2e-6       2e-4       7e-6
        k^-1                              3e-6       2e-6       3e-3       6e-6
        k^-2                              2e-3       2e-4       0.65       1e-4
        log-spaced from 1 to 1e-9         0.13       0.12       0.32       0.08

    Args:
        M: (..., m, n), one matrix or a stack of them.
        p: exponent of the singular values, in [-0.5, 1].
        dtype: of the Gram matrix and its eigenvalues. float32 is only for matrices without small singular
            values, and not for momenta of the first steps; squares of entries must stay within its range.

    Returns:
        as many matrices in the dtype of M; zero for a zero M; all NaN for an M M^T that is not finite.

    Raises:
        ValueError: p is out of its range.

    Source: HTMuon paper, Algorithm "HTMuon", with another way to compute O; ours.
    """
    check_power(p, "gram_power")
    if M.shape[-2] > M.shape[-1]:
        return gram_power(M.mT, p, dtype).mT
    A = gram(M.to(dtype))
    sound = finite(A)
    solve = eigen if _host_reads(M) else torch.linalg.eigh
    L, U = solve(A.masked_fill_(~sound, 0))  # raises at NaN
    del A  # a stack of them is large
    top = L[..., -1:].where(L[..., -1:] > 0, 1)
    D = (L / top).clamp(min=4 * torch.finfo(dtype).eps).pow((p - 1) / 2)
    high = torch.promote_types(M.dtype, torch.float32)
    P = gram(U.mul_(D.sqrt().unsqueeze(-2))).to(high)  # U diag(D) U^T
    del U
    scale = top.sqrt().unsqueeze(-1)  # so that P and X are within the range of float32
    X = torch.div(M, scale, out=torch.empty_like(M, dtype=high))
    O: Tensor = (P @ X).mul_(scale.pow(p)).masked_fill_(~sound, torch.nan)  # noqa: E741 - the paper's symbol
    return O.to(M.dtype)


def graded_power(M: Tensor, p: float) -> Tensor:
    """`svd_power` by eigenvalues of Gram matrices in float32, the small singular values after the large ones.

        graded(Y):  V diag(L) V^T = Y Y^T,   Y <- V^T Y
                    large: the rows of Y with L > t^2 max(L), t = 0.02;   d = their norms,   N = Y[large] / d
                    Z <- Y[rest] - Y[rest] N^T N
                    return V[large] diag(d^p) N + V[rest] graded(Z)
        O = graded(M)

    In float32 a Gram matrix resolves a thousandth of its largest singular value. Without the large rows, and
    without what is left of them in the small ones, the next Gram matrix resolves a thousandth of what
    remains, and is smaller. Below 1e-7 of the largest the map is linear. `gram_power` has a table of errors.

    Args:
        M: (..., m, n), one matrix or a stack of them, which is mapped one by one: the number of large rows
            decides about shapes. Where the host can't read that number without waiting, on a GPU and in
            torch.compile, the stack goes to `gram_power` in float64 instead, with one call of the solver. A
            float64 M goes to `svd_power`, because who works in float64 wants all digits.
        p: exponent of the singular values, in [-0.5, 1].

    Returns:
        as many matrices in the dtype of M; zero for a zero M; all NaN for one that is not finite.

    Raises:
        ValueError: p is out of its range.

    Source: ours.
    """
    check_power(p, "graded_power")
    if M.dtype == torch.float64:
        return svd_power(M, p)
    if not _host_reads(M):
        return gram_power(M, p)
    if M.ndim > 2:
        stack = M.flatten(0, -3)
        return torch.stack([graded_power(one, p) for one in stack]).view(M.shape)
    if len(M) > M.shape[1]:
        return graded_power(M.mT, p).mT
    X = M.float()
    mu = X.abs().max()
    if not 0 < mu < torch.inf:  # NaN too
        return torch.full_like(M, 0 if mu == 0 else torch.nan)
    Y = X / mu
    floor = 1e-7 * torch.linalg.matrix_norm(Y).item()
    O: Tensor = _graded(Y, p, floor) * mu.pow(p)  # noqa: E741 - the paper's symbol
    return O.to(M.dtype)


def _graded(Y: Tensor, p: float, floor: float) -> Tensor:
    L, V = eigen(gram(Y))
    if L[-1] <= floor**2:
        return Y.mul(floor ** (p - 1))
    rest = int((L <= _LARGE**2 * L[-1]).sum())  # they come first
    Y = V.mT @ Y
    d = torch.linalg.vector_norm(Y[rest:], dim=1)
    N = Y[rest:] / d.unsqueeze(1)
    O: Tensor = V[:, rest:] * d.pow(p) @ N  # noqa: E741 - the paper's symbol
    if not rest:
        return O
    small = Y[:rest]
    return torch.addmm(O, V[:, :rest], _graded(small - small @ N.mT @ N, p, floor))


def _host_reads(M: Tensor) -> bool:
    """Whether a number on the device of M is known to Python without waiting for other work."""
    return M.device.type == "cpu" and not torch.compiler.is_compiling()


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
    sound = finite(M)
    X = M.to(torch.promote_types(M.dtype, torch.float32)).where(sound, 0)  # LAPACK raises at NaN
    U, S, Vh = torch.linalg.svd(X, full_matrices=False)
    O: Tensor = U * f(S).unsqueeze(-2) @ Vh  # noqa: E741 - the paper's symbol
    return O.where(sound, torch.nan).to(M.dtype)


def _bounded_power(S: Tensor, p: float) -> Tensor:
    """S^p down to a floor of 4 eps max(S), and linear from there to 0."""
    floor = (4 * torch.finfo(S.dtype).eps * S[..., :1]).clamp(min=torch.finfo(S.dtype).tiny)
    ratio = S / floor
    return floor.pow(p) * ratio.pow(p).where(ratio > 1, ratio)
