"""The map of DynMuon: a power of the singular values, positive or negative, by a series around 1."""

import torch
from torch import Tensor

from htbench.optimizers.spectral.polar import bounded, frobenius, polar
from htbench.optimizers.spectral.products import combine, gram, square


def dynmuon(M: Tensor, p: float = 0.25, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return U g(S) V^T, where g is DynMuon's stand-in for the power p.

        X = M / ||M||_F,   P = X after 12 iterations of `polar`
        E = X X^T - I,   d = p / 2
        O = ||M||_F^p (I + d E + d (d-1)/2 E E) P           the series of (X X^T)^d up to its second order

    A singular value x of X becomes g(x) = 1 + d e + d (d-1)/2 e^2 with e = x^2 - 1, as far as P is U V^T. So
    g is x^p near x = 1 only. Most singular values are far below 1. There g is a constant, .82 for p = .25 and
    1.20 for p = -.25, where x^p goes to 0 or to infinity. Below x = 5e-4 P falls to 0 linearly, so that O is
    bounded for negative p, too. The map is homogeneous of degree p in M.

    Args:
        M: an (..., m, n) matrix or batch of them.
        p: exponent, in [-.5, .5]; 0 is Muon with another iteration.
        dtype: precision of the iterations and of the series.

    Returns:
        an (..., m, n) matrix in the dtype of M; zero for a zero M, and NaN for an M that is not finite.

    Raises:
        ValueError: p is out of its range.

    Source: https://arxiv.org/abs/2605.17109; https://github.com/KellerJordan/modded-nanogpt/pull/304, where
        p falls from .25 to -.25 within the first tenth of the run.
    """
    check_exponent(p)
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return dynmuon(M.mT, p, dtype).mT
    Y, mu = bounded(M)
    norm = frobenius(Y)
    X = (Y / norm).to(dtype)
    d, q = p / 2, p / 2 * (p / 2 - 1) / 2
    O = polar(X)  # noqa: E741 - the paper's symbol
    # With two factors of 0 torch.baddbmm returns memory as it finds it (bfloat16, CPU, torch 2.13).
    if p != 0:
        B = square(d - 2 * q, gram(X), q)  # d E + q E E without its multiple of I, which is q - d
        O = combine(1 - d + q, O, 1, B)  # noqa: E741
    return (O * (mu**p * norm**p)).to(M.dtype)  # mu norm itself may overflow


def check_exponent(p: float) -> None:
    """Refuse an exponent that the map does not take.

    Raises:
        ValueError: p is not in [-0.5, 0.5].
    """
    if not -0.5 <= p <= 0.5:
        raise ValueError(f"p must be a finite number in [-0.5, 0.5] for the map dynmuon, got {p!r}")
