"""What Soft-Muon, Contra-Muon, DynMuon and Soft-polar share: a Newton-Schulz iteration, and norms."""

import torch
from torch import Tensor

from htbench.optimizers.spectral.products import combine, gram, square

# Of a x + b x^3 + c x^5: increases up to 1, where value and slope are 1 and 0. Less steep at 0 than
# `newton_schulz.QUINTIC`, but it converges. Source: https://github.com/KellerJordan/modded-nanogpt, track 3.
CONVERGENT = (2.0, -1.5, 0.5)
STEPS = 12  # 2^12 brings singular values from 5e-4 to 0.95


def polar(X: Tensor) -> Tensor:
    """Approximate U V^T by `STEPS` iterations; X is (..., m, n) with m <= n and singular values up to 1."""
    for _ in range(STEPS):
        X = iterate(X)
    return X


def iterate(X: Tensor) -> Tensor:
    """Return a X + (b A + c A A) X with A = X X^T, in the dtype of X."""
    a, b, c = CONVERGENT
    return combine(a, X, 1, square(b, gram(X), c))


def energy(X: Tensor) -> Tensor:
    """The Schatten 4-norm ||X X^T||_F^(1/2) = (sum of S^4)^(1/4), of shape (..., 1, 1), in float32 or better.

    It is at least the largest singular value, and nearer to it than the Frobenius norm. The authors call it
    the Gram-Frobenius norm.
    """
    high = torch.promote_types(X.dtype, torch.float32)
    squares: Tensor = torch.linalg.matrix_norm(gram(X), dtype=high, keepdim=True)
    return squares.sqrt()


def with_energy(X: Tensor, wanted: Tensor) -> Tensor:
    """X times the number that gives it the `energy` that is wanted; zero for a zero X."""
    return X * (wanted / _positive(energy(X))).to(X.dtype)


def unit(M: Tensor, dtype: torch.dtype) -> Tensor:
    """M divided by its `energy`, in `dtype`; zero for a zero M."""
    X, _ = bounded(M)
    return (X / _positive(energy(X.to(dtype)))).to(dtype)


def bounded(M: Tensor) -> tuple[Tensor, Tensor]:
    """M / mu and mu = max |M| of each matrix, in float32 or better, so that squares do not overflow."""
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    mu = _positive(torch.linalg.vector_norm(X, torch.inf, dim=(-2, -1), keepdim=True))
    return X / mu, mu


def frobenius(X: Tensor) -> Tensor:
    """The Frobenius norm of each matrix, of shape (..., 1, 1), in float32 or better, and never 0."""
    high = torch.promote_types(X.dtype, torch.float32)
    return _positive(torch.linalg.matrix_norm(X, dtype=high, keepdim=True))


def _positive(x: Tensor) -> Tensor:
    return x.clamp(min=torch.finfo(x.dtype).tiny)
