"""Our own map of a matrix's singular values: U S^p V^T from the iterates that Muon computes anyway."""

from __future__ import annotations

import torch
from torch import Tensor

from optimizers.spectral.mix_weights import MIX_SETS, mixture, solve_weights
from optimizers.spectral.products import matmul

__all__ = ["MIX_SETS", "mix_power", "solve_weights"]


def mix_power(
    M: Tensor,
    p: float,
    coefficients: str = "k6",
    dtype: torch.dtype = torch.float32,
    fp32_steps: int = 2,
) -> Tensor:
    """Approximate U diag(S^p) V^T with matrix products alone, by a mixture of Newton-Schulz iterates.

        mu = max |M|,   s = ||M M^T / mu^2||_F^(1/2)              so that mu s = (sum of S^4)^(1/4) >= max S
        X_0 = M / (mu s),   X_(k+1) = a_k X_k + (b_k A + c_k A A) X_k   with A = X_k X_k^T
        O = (mu s)^p (w_0 X_0 + ... + w_K X_K)

    A singular value x of X_0 becomes g(x) = sum_k w_k f_k(x), where f_0(x) = x and
    f_(k+1) = a_k f_k + b_k f_k^3 + c_k f_k^5. The f_k saturate one after the other as x grows, and together
    they span x^p well. A set of (a_k, b_k, c_k) serves every p; only w depends on it. The cost is that of K
    iterations of `newton_schulz`: 3 K products. The norm is free, because M M^T is needed anyway.

        set            k5     k6       k7     k8     k6_accurate   k7_accurate
        K              5      6        7      8      6             7
        lo             5e-3   1.5e-3   5e-4   2e-4   2e-3          1e-3
        |g/x^p - 1|    2.4 %  2.4 %    2.0 %  1.1 %  1.3 %         0.5 %      at most, for x in [lo, 1.02]

    Limits: below lo, g falls to 0 linearly instead of as x^p, so that directions under lo mu s are damped, as
    Muon damps its own. In early steps and with small batches those are many: on momentum matrices of a small
    language model O was 30 to 60 % from exact at step 1 (relative, Frobenius, p = 0.125), and 8 to 26 % at
    step 200. Null directions stay null. Two singular values may swap where their outputs are within 4 %.
    Not tested with TF32. On a CPU it takes about as long as an SVD in float32; its case is a GPU.

    Args:
        M: an (..., m, n) matrix or batch of them.
        p: exponent, in [0, 1]; 1 returns M.
        coefficients: the set, one of `MIX_SETS`.
        dtype: precision of the iterations: float32, bfloat16 or float64. A float64 M makes all of it float64.
        fp32_steps: with bfloat16, this many iterations are in float32 first. Rounding M itself would plant
            singular values of 1e-4 to 1e-3, which the map then lifts. The sum is in float32 in any case.

    Returns:
        an (..., m, n) matrix in the dtype of M; zero for a zero M, and not finite for an M that is not.

    Raises:
        ValueError: p is not in [0, 1], or there is no such set.

    Source: ours. We are not aware of earlier work that mixes all iterates, with steps shared over p.
        BeyondMuon (https://arxiv.org/abs/2602.04669), Muon^p (https://arxiv.org/abs/2606.13867) and
        Schatten-p Muon (https://arxiv.org/abs/2605.19781) take the last iterate of other recurrences.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"p must be a number in [0, 1], got {p!r}")
    if p == 1:
        return M
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return mix_power(M.mT, p, coefficients, dtype, fp32_steps).mT
    p = float.fromhex(float(p).hex())  # a constant to torch.compile even after it has met another p
    steps, w = mixture(p, coefficients)
    high = torch.promote_types(torch.promote_types(M.dtype, torch.float32), dtype)
    low = high if high == torch.float64 else dtype

    X, A, mu, s = _normalise(M.to(high))
    O: Tensor = w[0] * X  # noqa: E741 - the paper's symbol
    for k, (a, b, c) in enumerate(steps):
        if k == fp32_steps:
            X = X.to(low)
        A = matmul(X, X.mT) if k else A.to(X.dtype)
        B = matmul(A, A).mul_(c).add_(A, alpha=b)
        X = matmul(B, X).add_(X, alpha=a)
        O.add_(X, alpha=w[k + 1])
    return O.mul_(mu**p * s**p).to(M.dtype)  # mu s itself may overflow


def _normalise(M: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """X = M / (mu s), X X^T, mu, s. Dividing by mu first keeps entries above 1e18 from overflowing M M^T."""
    tiny = torch.finfo(M.dtype).tiny  # for a zero M
    mu = torch.linalg.vector_norm(M, torch.inf, dim=(-2, -1), keepdim=True).clamp(min=tiny)
    X = M / mu
    A = matmul(X, X.mT)
    square = torch.linalg.matrix_norm(A, keepdim=True).clamp(min=tiny)
    s = square.sqrt()
    return X.div_(s), A.div_(square), mu, s
