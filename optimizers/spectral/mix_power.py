"""Our own map of a matrix's singular values: U S^p V^T from the iterates that Muon computes anyway.

We are not the first to mix iterates. Soft-Muon (https://github.com/KellerJordan/modded-nanogpt/pull/291, May
2026) is a sum of 12 iterates of one polynomial for x^.1, with the same norm; see `soft_muon.py`. An essay of
V. Neal (https://varunneal.github.io/essays/spectral-powers) fits 9 different steps, once for every p. Ours
takes 5 to 8 steps; they and the weights are fitted to the largest relative error on a stated interval.
BeyondMuon (https://arxiv.org/abs/2602.04669), Muon^p (https://arxiv.org/abs/2606.13867) and Schatten-p Muon
(https://arxiv.org/abs/2605.19781) take the last iterate of other recurrences.
"""

import torch
from torch import Tensor
from torch.linalg import matrix_norm, vector_norm

from htbench.optimizers.spectral.exact import check_power
from htbench.optimizers.spectral.mix_weights import MIX_SETS, mixture, solve_weights
from htbench.optimizers.spectral.products import DTYPES, fused, gram, matmul, square

__all__ = ["MIX_DTYPES", "MIX_SETS", "mix_power", "solve_weights"]

MIX_DTYPES = {**DTYPES, "float16": torch.float16}


def mix_power(
    M: Tensor,
    p: float,
    coefficients: str = "k6",
    dtype: torch.dtype = torch.bfloat16,
    fp32_steps: int = 0,
) -> Tensor:
    """Approximate U diag(S^p) V^T with matrix products alone, by a mixture of Newton-Schulz iterates.

        mu = a power of 2 near max |M|,   X = M / mu,   s = ||X X^T||_F^(1/2)
        X_0 = X / s,   X_(k+1) = (a_k I + b_k A + c_k A A) X_k   with A = X_k X_k^T
        O = (mu s)^p (w_0 X_0 + ... + w_K X_K)

    mu s is (sum of S^4)^(1/4), at least max S. A singular value x of X_0 becomes g(x) = sum_k w_k f_k(x),
    where f_0(x) = x and f_(k+1) = a_k f_k + b_k f_k^3 + c_k f_k^5. The f_k saturate one after the other as x
    grows, and together they span x^p well. A set of (a_k, b_k, c_k) serves every p; only w depends on it. The
    cost is that of K iterations of `newton_schulz`: 3 K products. The norm is free, because X X^T is needed
    anyway; s divides the first polynomial instead of X; the last two weights are part of the last polynomial.

        set            k5     k6       k7     k8     k6_accurate   k7_accurate
        K              5      6        7      8      6             7
        lo             5e-3   1.5e-3   5e-4   2e-4   2e-3          1e-3
        |g/x^p - 1|    2.4 %  2.4 %    2.0 %  1.1 %  1.3 %         0.5 %      at most, for x in [lo, 1.02]
          p = -0.125   3.8 %  3.7 %    4.0 %  2.3 %  1.8 %         1.6 %
          p = -0.25    9.1 %  9.6 %    9.6 %  8.0 %  4.8 %         4.5 %
          p = -0.5     28 %   37 %     33 %   42 %   22 %          23 %

    Limits: below lo, g falls to 0 linearly instead of as x^p, so that directions under lo mu s are damped, as
    Muon damps its own; for a negative p too, where g is nowhere above lo^p. In early steps and with small
    batches those are many: on momentum matrices of a small language model O was 30 to 60 % from exact at
    step 1 (relative, Frobenius, p = 0.125), and 8 to 26 % at step 200. Null directions stay null. Two
    singular values may swap where their outputs are within 4 %. Not tested with TF32.

    bfloat16 throughout adds .001 to .013 to the relative error of k6 on captured momenta, and two iterations
    in float32 would cost as much as four to eight in bfloat16. On a CPU with bfloat16 arithmetic k5, k6 and
    k7 take 1.0, 1.2 and 1.4 times as long as `newton_schulz`.

    Args:
        M: an (..., m, n) matrix or stack of them.
        p: exponent, in [-0.5, 1]; 1 returns M.
        coefficients: the set, one of `MIX_SETS`.
        dtype: precision of the iterations and of the sum: bfloat16, float16, float32 or float64. A float64 M
            makes all of it float64. float16 has eight times the precision of bfloat16 and is meant for CUDA;
            on a CPU its products are taken in float32 and rounded.
        fp32_steps: with a shorter dtype, this many iterations are in float32 first. Rounding M itself plants
            singular values of 1e-4 to 1e-3, which the map then lifts.

    Returns:
        an (..., m, n) matrix in the dtype of M; zero for a zero M, and not finite for an M that is not.

    Raises:
        ValueError: p is not in [-0.5, 1], or there is no such set.

    Source: ours; for the prior art in mixing iterates see the head of this file.
    """
    check_power(p, "mix_power")
    if p == 1:
        return M
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return mix_power(M.mT, p, coefficients, dtype, fp32_steps).mT
    p = float.fromhex(float(p).hex())  # a constant to torch.compile even after it has met another p
    steps, w = mixture(p, coefficients)
    high = torch.promote_types(torch.promote_types(M.dtype, torch.float32), dtype)
    low = high if high == torch.float64 else dtype

    X, mu = _scaled(M, high, high if fp32_steps else low)
    A, s = _normalised_gram(X)  # X / s is X_0
    if X.is_cuda:
        O: Tensor = X.div_(s) * w[0]  # noqa: E741 - the paper's symbol
    else:  # the first polynomial is divided instead, which is smaller than X
        O = X * (w[0] / s)  # noqa: E741
    for k, (a, b, c) in enumerate(steps[:-1]):
        B = _add_identity(square(b, A, c), a)
        X = matmul(B if k or X.is_cuda else B.div_(s), X)
        if k < len(steps) - 2:
            O.add_(X, alpha=w[k + 1])
        if k + 1 == fp32_steps:
            X, O = X.to(low), O.to(low)  # noqa: E741
        A = gram(X)
    a, b, c = (w[-1] * one for one in steps[-1])
    O = fused(O, _add_identity(square(b, A, c), a + w[-2]), X)  # noqa: E741 - the last two iterates at once
    result = torch.empty_like(M if M.is_cuda else O, dtype=M.dtype)  # a GPU needs no copy later
    return torch.mul(O, mu**p * s.to(high) ** p, out=result)  # mu s itself may overflow


_EXPONENT = {torch.float32: (torch.int32, 0x7F80_0000), torch.float64: (torch.int64, 0x7FF0_0000_0000_0000)}


def _scaled(M: Tensor, high: torch.dtype, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """X = M / mu in `dtype`, and mu, the power of two that makes max |X| at least 1 and less than 2.

    By a power of two no rounding is added. In float16 ||X||_F is then 1, lest X X^T overflow.
    """
    if M.is_cuda:
        largest = vector_norm(M, torch.inf, (-2, -1), keepdim=True, dtype=high)
    else:  # where that takes longer than two passes
        largest = M.abs().amax((-2, -1), keepdim=True).to(high)
    bits, exponent = _EXPONENT[high]
    mu = largest.clamp_min_(torch.finfo(high).tiny).view(bits).bitwise_and_(exponent).view(high)
    if dtype == torch.float16:
        mu = mu * _positive(matrix_norm(M / mu, keepdim=True))
    if dtype == torch.float16 or M.is_cuda:
        return torch.div(M, mu, out=M.new_empty(M.shape, dtype=dtype)), mu
    # `contiguous` at first: a CPU transposes by blocks, but not while it rounds.
    X = M.contiguous().to(dtype, copy=True, memory_format=torch.contiguous_format)
    return X.div_(mu.to(dtype)), mu


def _normalised_gram(X: Tensor) -> tuple[Tensor, Tensor]:
    """X X^T / s^2 and s = ||X X^T||_F^(1/2). What s loses by rounding to the dtype of X does not matter."""
    A = gram(X)
    s = _positive(matrix_norm(A, keepdim=True)).sqrt_()
    return A.div_(s).div_(s), s


def _positive(norm: Tensor) -> Tensor:
    """A norm that a matrix can be divided by: any that is met here is greater, but that of a zero matrix."""
    return norm.clamp_min(2**-12)


def _add_identity(B: Tensor, a: float) -> Tensor:
    """B + a I, in place: then (B + a I) X needs no pass over X for the term a X."""
    B.diagonal(dim1=-2, dim2=-1).add_(a)
    return B
