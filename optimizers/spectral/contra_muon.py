"""The map of Contra-Muon: large singular values become a little smaller than small ones."""

import torch
from torch import Tensor

from htbench.optimizers.spectral.polar import energy, polar, unit, with_energy


def contra_muon(M: Tensor, contra: float = 0.2, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return about U (1 - contra S / ||M||_4) V^T, with the norm of U V^T.

        X = M / ||M||_4,   P = X after 12 iterations of `polar`
        O = (P - contra X) ||P||_4 / ||P - contra X||_4

    ||X||_4 is `energy`. A singular value x of X becomes p(x) - contra x, times a factor; p(x) is 1 for x
    above 1e-3 and falls to 0 linearly below. The weights of large directions fall by up to `contra`; a matrix
    with one direction stays what Muon makes of it. The map does not depend on the size of M.

    Args:
        M: an (..., m, n) matrix or batch of them.
        contra: in [0, 1); 0 is Muon with another iteration.
        dtype: precision of the iterations.

    Returns:
        an (..., m, n) matrix in the dtype of M; zero for a zero M, and NaN for an M that is not finite.

    Source: https://github.com/KellerJordan/modded-nanogpt/pull/275, without its other parts; pull request
        291, which scales O as above and lets `contra` fall from .2 to 0 over the first two thirds of the run.
    """
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return contra_muon(M.mT, contra, dtype).mT
    X = unit(M, dtype)
    P = polar(X)
    return with_energy(P.sub(X, alpha=contra), energy(P)).to(M.dtype)
