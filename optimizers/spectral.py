"""Maps of a matrix's singular values: M = U diag(S) V^T -> U diag(f(S)) V^T.

Which map an optimizer uses is the only line in which Muon and the forms of HTMuon differ. The parameter group
holds it as a word, the key of `SPECTRAL`, so that it can be written to disk and swept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

# Of a x + b x^3 + c x^5: steep at 0, near 1 up to 1. Source: https://kellerjordan.github.io/posts/muon/
QUINTIC = (3.4445, -4.7750, 2.0315)
NS_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


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
        A = X @ X.mT
        B = b * A + c * A @ A  # as released: in bfloat16, fusing these products moves entries by up to 0.09
        X = a * X + B @ X
    return X.to(M.dtype)


def svd_power(M: Tensor, p: float) -> Tensor:
    """U diag(S^p) V^T from a thin SVD in float32 or better: p = 0 gives U V^T, p = 1 gives M.

    Homogeneous of degree p in M. As in the released code, S has no floor: p = 0 gives null directions weight
    1, and a small p gives the rounding noise in them a weight near 1.

    Args:
        M: an (m, n) matrix.
        p: exponent of the singular values, in [0, 1].

    Returns:
        an (m, n) matrix in the dtype of M; all NaN for an M that is not finite, so that a diverging run ends
        as a divergence instead of with the error that LAPACK raises.

    Source: HTMuon paper, Algorithm "HTMuon", the line O = U S^p V^T.
    """
    if M.shape[0] < M.shape[1]:  # LAPACK prefers tall matrices: 512 x 1376 takes 117 ms instead of 187 ms
        return svd_power(M.mT, p).mT
    if not M.isfinite().all():
        return torch.full_like(M, torch.nan)
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    U, S, Vh = torch.linalg.svd(X, full_matrices=False)
    O: Tensor = U * S.pow(p) @ Vh  # noqa: E741 - the paper's symbol
    return O.to(M.dtype)


# (M, state of the parameter, its group) -> O. The state serves maps that continue from the previous step.
SpectralMap: TypeAlias = Callable[[Tensor, dict[str, Any], dict[str, Any]], Tensor]

SPECTRAL: dict[str, SpectralMap] = {
    "newton_schulz": lambda M, _, group: newton_schulz(M, group["ns_steps"], NS_DTYPES[group["ns_dtype"]]),
    "svd_power": lambda M, _, group: svd_power(M, group["p"]),
}
