"""The iteration that gives Muon its speed, and the matrix product that it needs."""

from __future__ import annotations

import torch
from torch import Tensor

# Of a x + b x^3 + c x^5: steep at 0, near 1 up to 1. Source: https://kellerjordan.github.io/posts/muon/
QUINTIC = (3.4445, -4.7750, 2.0315)
# "AVX2" and below have no bfloat16 arithmetic.
_NATIVE_BFLOAT16 = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2")
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


def newton_schulz(M: Tensor, steps: int = 5, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Approximate U V^T with matrix products alone, by iterating a quintic polynomial.

        X <- M / ||M||_F;   repeat: A = X X^T,  X <- a X + (b A + c A A) X

    Five steps bring singular values above 0.01 ||M||_F to between 0.68 and 1.14, and smaller ones part way.

    Args:
        M: an (m, n) matrix.
        steps: number of iterations; 5 in the paper and in all released code.
        dtype: precision of the iterations; bfloat16 in the released code.

    Returns:
        an (m, n) matrix in the dtype of M; zero for a zero M.

    Source: https://github.com/KellerJordan/Muon
    """
    if M.shape[0] > M.shape[1]:  # X X^T is then the smaller Gram matrix
        return newton_schulz(M.mT, steps, dtype).mT
    a, b, c = QUINTIC
    X: Tensor = M.to(dtype)
    X = X / (X.norm() + 1e-7)
    for _ in range(steps):
        A = matmul(X, X.mT)
        B = combine(b, A, c, A)
        X = combine(a, X, 1, B)
    return X.to(M.dtype)


def combine(a: float, X: Tensor, b: float, A: Tensor) -> Tensor:
    """Return a X + b A X, in one fused operation where that does not change what bfloat16 rounds.

    The released code rounds every term. Fused, entries of the result move by up to 0.09; and in float32 the
    separate passes over memory are 11 to 19 % of an iteration.
    """
    if X.dtype == torch.bfloat16:
        return matmul(b * A, X).add_(a * X)
    return torch.addmm(X, A, X, beta=a, alpha=b)


def matmul(A: Tensor, B: Tensor) -> Tensor:
    """A @ B, where products of bfloat16 don't crawl on a CPU that has no instructions for them.

    Such a product is defined as a sum in float32 that is rounded at the end. Without native instructions
    PyTorch takes 28 to 820 ms for what float32 does in 4 to 11 ms (512 x 512 and 512 x 1376, AVX2); there the
    sum is taken in float32 and rounded. The values are those of the native product up to the order of sums.
    """
    if A.dtype == torch.bfloat16 and A.device.type == "cpu" and not _NATIVE_BFLOAT16:
        return (A.float() @ B.float()).to(A.dtype)
    return A @ B
