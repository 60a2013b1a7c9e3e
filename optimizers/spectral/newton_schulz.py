"""The iteration that gives Muon its speed."""

from __future__ import annotations

import torch
from torch import Tensor

from optimizers.spectral.products import combine, gram, square

# Of a x + b x^3 + c x^5: steep at 0, near 1 up to 1. Source: https://kellerjordan.github.io/posts/muon/
QUINTIC = (3.4445, -4.7750, 2.0315)
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


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

    Source: https://github.com/KellerJordan/Muon. It rounds the products and each term of the sums; here they
        are fused as in torch.optim.Muon, so that each line of an iteration rounds once.
    """
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return newton_schulz(M.mT, steps, dtype).mT
    a, b, c = QUINTIC
    X: Tensor = M.to(dtype)
    X = X / (torch.linalg.matrix_norm(X, keepdim=True) + 1e-7)
    for _ in range(steps):
        X = combine(a, X, 1, square(b, gram(X), c))
    return X.to(M.dtype)
