"""Our own map of a matrix's singular values: U S^p V^T from the iterates that Muon computes anyway."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import matrix_norm

from optimizers.spectral.exact import check_power
from optimizers.spectral.mix_weights import MIX_SETS, mixture, solve_weights
from optimizers.spectral.newton_schulz import DTYPES
from optimizers.spectral.products import fused, gram, matmul, square

__all__ = ["MIX_DTYPES", "MIX_SETS", "mix_power", "solve_weights"]

MIX_DTYPES = {**DTYPES, "float16": torch.float16}


def mix_power(
    M: Tensor,
    p: float,
    coefficients: str = "k6",
    dtype: torch.dtype = torch.bfloat16,
    fp32_steps: int = 0,
) -> Tensor:
    check_power(p, "mix_power")
    if p == 1:
        return M
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return mix_power(M.mT, p, coefficients, dtype, fp32_steps).mT
    p = float.fromhex(float(p).hex())  # a constant to torch.compile even after it has met another p
    steps, w = mixture(p, coefficients)
    high = torch.promote_types(torch.promote_types(M.dtype, torch.float32), dtype)
    low = high if high == torch.float64 else dtype

    X, mu = _scaled(M.to(high), high if fp32_steps else low)
    A, s = _normalised_gram(X)  # X / s is X_0
    O: Tensor = X * (w[0] / s)  # noqa: E741 - the paper's symbol
    for k, (a, b, c) in enumerate(steps[:-1]):
        B = _add_identity(square(b, A, c), a)
        X = matmul(B if k else B.div_(s), X)
        if k < len(steps) - 2:
            O.add_(X, alpha=w[k + 1])
        if k + 1 == fp32_steps:
            X, O = X.to(low), O.to(low)  # noqa: E741
        A = gram(X)
    a, b, c = (w[-1] * one for one in steps[-1])
    O = fused(O, _add_identity(square(b, A, c), a + w[-2]), X)  # noqa: E741 - the last two iterates at once
    return O.to(high).mul_(mu.to(high) ** p * s.to(high) ** p).to(M.dtype)  # mu s itself may overflow


def _scaled(M: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """X = M / mu in `dtype`, and mu, the power of two that makes max |X| at least 1 and less than 2.

    By a power of two no rounding is added. In float16 ||X||_F is then 1, lest X X^T overflow.
    """
    both = (-2, -1)
    largest = torch.maximum(M.amax(both, keepdim=True), -M.amin(both, keepdim=True))
    mu = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
    if dtype == torch.float16:
        mu = mu * _or_one(matrix_norm(M / mu, keepdim=True))
        return (M / mu).to(dtype).contiguous(), mu
    X = M.to(dtype, copy=True, memory_format=torch.contiguous_format)
    return X.div_(mu.to(dtype)), mu


def _normalised_gram(X: Tensor) -> tuple[Tensor, Tensor]:
    """X X^T / s^2 and s = ||X X^T||_F^(1/2). What s loses by rounding to the dtype of X does not matter."""
    A = gram(X)
    s = _or_one(matrix_norm(A, keepdim=True)).sqrt()
    return A.div_(s).div_(s), s


def _or_one(x: Tensor) -> Tensor:
    """x, or 1 where it is 0: what a zero matrix is divided by."""
    return x.masked_fill(x == 0, 1)


def _add_identity(B: Tensor, a: float) -> Tensor:
    """B + a I, in place: then (B + a I) X needs no pass over X for the term a X."""
    B.diagonal(dim1=-2, dim2=-1).add_(a)
    return B
