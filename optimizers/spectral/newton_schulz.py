"""The iteration that gives Muon its speed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from optimizers.spectral.products import combine, gram, matmul, square

# Of a x + b x^3 + c x^5: steep at 0, near 1 up to 1. Source: https://kellerjordan.github.io/posts/muon/
QUINTIC = (3.4445, -4.7750, 2.0315)


def newton_schulz(M: Tensor, steps: int = 5, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Approximate U V^T with matrix products alone, by iterating a quintic polynomial.

        X <- M / ||M||_F;   repeat: A = X X^T,  X <- a X + (b A + c A A) X

    Five steps bring singular values above 0.01 ||M||_F to between 0.68 and 1.14, and smaller ones part way.

    Args:
        M: (..., m, n), one matrix or a stack of them.
        steps: number of iterations; 5 in the paper and in all released code.
        dtype: precision of the iterations; bfloat16 in the released code.

    Returns:
        as many matrices in the dtype of M; zero for a zero M.

    Source: https://github.com/KellerJordan/Muon. It rounds each product and each term of a sum; we fuse them
        as torch.optim.Muon does, which is closer to float32.
    """
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return newton_schulz(M.mT, steps, dtype).mT
    X: Tensor = M.to(dtype)
    X = X / (torch.linalg.matrix_norm(X, keepdim=True) + 1e-7)
    columns, width = X.shape[-1], _width(X)
    if width > columns:  # zeros change neither X X^T nor the other columns
        X = pad(X, (0, width - columns))
    iterate = _iterate_as_released if X.shape[-2] <= 16 and dtype == torch.bfloat16 else _iterate
    for _ in range(steps):
        X = iterate(X)
    return X[..., :columns].to(M.dtype)


def _width(X: Tensor) -> int:
    """The columns to iterate with. Tensor cores want rows that begin at multiples of 16 bytes or more.

    Source: https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication
    """
    return -(-X.shape[-1] // 32) * 32 if X.is_cuda else X.shape[-1]


def _iterate(X: Tensor) -> Tensor:
    a, b, c = QUINTIC
    return combine(a, X, 1, square(b, gram(X), c))


def _iterate_as_released(X: Tensor) -> Tensor:
    """The same with the roundings of the released code, which has no fused sums.

    In tiny matrices these do not average out: bfloat16 moves entries by up to 0.06 away from float32, in
    another direction for each order of operations. With this one, recorded trajectories of that code can be
    compared; there is no time to win at that size.
    """
    a, b, c = QUINTIC
    A = matmul(X, X.mT)
    B = matmul(c * A, A).add_(b * A)
    return matmul(B, X).add_(a * X)
