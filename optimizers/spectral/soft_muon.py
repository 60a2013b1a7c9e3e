"""The map of Soft-Muon: about the power .1 of the singular values, as a sum of Newton-Schulz iterates."""

import torch
from torch import Tensor

from htbench.optimizers.spectral.polar import energy, iterate, unit, with_energy

# Of the iterates f_0 = x to f_11, for x^.1; they add up to 1. Source: modded-nanogpt pull request 291.
WEIGHTS = (
    *(0.1091613623, 0.07085664498, 0.05210528973, 0.05457295795, 0.05011334061, 0.03334622198),
    *(0.05022104481, 0.1053727358, 0.1187323776, 0.1185061091, 0.1185059576, 0.1185059576),
)


def soft_muon(M: Tensor, blend: float = 1.0, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Blend U V^T with about U S^.1 V^T, both from the same iterates, and keep the norm of U V^T.

        X_0 = M / ||M||_4,   X_(k+1) = 2 X_k + (-1.5 A + .5 A A) X_k   with A = X_k X_k^T
        P = X_12,   F = w_0 X_0 + ... + w_11 X_11
        O = P + blend (c F - P), scaled            c and the scale are such that ||c F||_4 = ||O||_4 = ||P||_4

    ||X||_4 is `energy`. For a singular value x of X_0 the relative error of F against x^.1, with the best
    factor, is .032 for x in [5e-3, 1], .15 in [1.5e-3, 1] and .39 in [5e-4, 1]. Below, F falls to 0 linearly
    and null directions stay null. The map does not depend on the size of M. It takes 40 products; Muon takes
    15.

    Args:
        M: an (..., m, n) matrix or batch of them.
        blend: share of F, in [0, 1]; 0 is Muon with another iteration.
        dtype: precision of the iterations and of the sum.

    Returns:
        an (..., m, n) matrix in the dtype of M; zero for a zero M, and NaN for an M that is not finite.

    Source: https://github.com/KellerJordan/modded-nanogpt/pull/291 (May 2026), which raises blend from 0 to
        .8 at the end of the run; https://nilin.github.io/contra-muon-and-soft-muon/. The power is .1, that of
        the published weights; `mix_power` takes any.
    """
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return soft_muon(M.mT, blend, dtype).mT
    X = unit(M, dtype)
    F = WEIGHTS[0] * X
    for w in WEIGHTS[1:]:
        X = iterate(X)
        F.add_(X, alpha=w)
    P = iterate(X)
    length = energy(P)
    return with_energy(P.lerp(with_energy(F, length), blend), length).to(M.dtype)
