"""The map of Soft-polar Muon: Muon's update with a share of the momentum itself."""

from typing import Literal

import torch
from torch import Tensor

from htbench.optimizers.spectral.polar import energy as norm4
from htbench.optimizers.spectral.polar import frobenius, polar, unit, with_energy

Energy = Literal["keep", "none"]


def soft_polar(
    M: Tensor, softening: float = 0.2, energy: Energy = "keep", dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """Return about U (1 - s + s x) V^T, where x are the singular values of M on a scale.

        P = M / ||M||_4 after 12 iterations of `polar`
        O = ((1-s) P + s M ||P||_4 / ||M||_4), scaled to ||O||_4 = ||P||_4         energy="keep"
            (1-s) P + s M / ||M||_F                                                energy="none"

    ||M||_4 is `polar.energy`. With "keep" the largest x is above 1: both terms have the norm of P, and that
    of M is mostly in its first directions. With "none" x is at most 1, and O is smaller than P. P is 1 for
    singular values of M / ||M||_4 above 1e-3 and falls to 0 linearly below. Weights therefore go down to 1-s
    there, and to 0 below as in Muon. The map does not depend on the size of M.

    Args:
        M: an (..., m, n) matrix or batch of them.
        softening: s, in [0, 1]; 0 is Muon with another iteration, 1 the momentum itself on a scale.
        energy: "keep" or "none", as above.
        dtype: precision of the iterations.

    Returns:
        an (..., m, n) matrix in the dtype of M; zero for a zero M, and NaN for an M that is not finite.

    Source: https://github.com/KellerJordan/modded-nanogpt/pull/332 for "keep", without its other parts;
        https://github.com/microsoft/dion/pull/92 for "none", there with that library's iterations.
    """
    if M.shape[-2] > M.shape[-1]:  # X X^T is then the smaller Gram matrix
        return soft_polar(M.mT, softening, energy, dtype).mT
    X = unit(M, dtype)
    P = polar(X)
    if energy == "none":
        return P.lerp(X / frobenius(X).to(dtype), softening).to(M.dtype)
    length = norm4(P)
    return with_energy(P.lerp(with_energy(X, length), softening), length).to(M.dtype)
