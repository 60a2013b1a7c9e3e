"""The map of Aurora: the polar factor of a matrix whose long side is balanced first."""

import torch
from torch import Tensor

from htbench.optimizers.spectral.newton_schulz import newton_schulz
from htbench.optimizers.spectral.polar import STEPS

_EPS = 1e-7


def aurora(M: Tensor, steps: int = 2, power: float = 0.5, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return polar(D M), with a diagonal D > 0 that brings the rows of the result to one length.

        D <- diag(1 / ||M_i||)                                        M_i are the rows of a tall m x n matrix
        repeat steps - 1 times:  U <- polar(D M),   D <- D diag((n/m) / ||U_i||^2)^power
        O <- polar(D M)

    The polar factor of a tall matrix has rows of different lengths, and neurons with short ones hardly learn.
    The columns of a wide matrix are balanced instead. A square one has a polar factor whose rows are all of
    length 1 and stays as it is. `polar` is Newton-Schulz with 12 convergent steps.

    Args:
        M: (..., m, n), one matrix or a stack of them.
        steps: number of polar factors; with 1 the rows are only brought to norm 1 before (MuonEq).
        power: how far D follows the lengths of the rows of U.
        dtype: precision of the iterations.

    Returns:
        as many matrices in the dtype of M; zero for a zero M.

    Source: https://github.com/tilde-research/aurora-release; https://blog.tilderesearch.com/blog/aurora.
    """
    if M.shape[-2] > M.shape[-1]:
        return aurora(M.mT, steps, power, dtype).mT
    m, n = M.shape[-2:]
    if m == n:
        return _polar(M, dtype)
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    D = 1 / torch.linalg.vector_norm(X, dim=-2, keepdim=True).clamp(min=_EPS)
    for _ in range(steps - 1):
        squares = _polar(D * X, dtype).square().sum(-2, keepdim=True)
        D = D * (m / n / squares.clamp(min=_EPS**2)).pow(power)
    return _polar(D * X, dtype).to(M.dtype)


def _polar(X: Tensor, dtype: torch.dtype) -> Tensor:
    return newton_schulz(X, STEPS, dtype, "convergent")
