"""The map of HTMuon_NS: a power of the singular values from matrix products alone."""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.linalg import matrix_norm

from htbench.optimizers.spectral.newton_schulz import newton_schulz

Side = Literal["right", "small"]


def ns_root(
    M: Tensor,
    p: float,
    ns_steps: int = 5,
    ns_dtype: torch.dtype = torch.bfloat16,
    root_steps: int = 5,
    eps: float = 1e-6,
    side: Side = "right",
    relative: bool = False,
) -> Tensor:
    """Approximate U S^p V^T by `newton_schulz` for U V^T times `gram_root` for V S^p V^T.

        O' <- NewtonSchulz(M),   O'' <- (M^T M)^(p/2),   O <- O' O''

    Small singular values are damped twice, so updates are more heavy-tailed than those of `svd_power`: on
    Gaussian matrices with p = 1/8 the relative error is 0.37 for 512 x 512 and 0.22 for 512 x 1376.

    Args:
        M: (..., m, n), one matrix or a stack of them.
        p: exponent of the singular values, in (0, 1); only powers of 1/2 are met, see `gram_root`.
        ns_steps, ns_dtype: of `newton_schulz`.
        root_steps, eps, relative: steps, eps and relative of `gram_root`.
        side: "right" for the factor from M^T M as in the paper; "small", if m < n, for that from M M^T on
            the left, which is the same map and for 512 x 1376 eleven times cheaper.

    Returns:
        as many matrices in the dtype of M.

    Raises:
        ValueError: p is out of its range.

    Source: HTMuon paper, Algorithm "HTMuon_NS"; https://github.com/TDCSZ327/HTmuon. The released code
        multiplies a bfloat16 O' by an O'' in the dtype of M, which fails unless that is bfloat16 too; here
        O'' and the product are in float32 or better.
    """
    if side == "small" and M.shape[-2] < M.shape[-1]:
        return ns_root(M.mT, p, ns_steps, ns_dtype, root_steps, eps, "right", relative).mT
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    root = gram_root(X, p, root_steps, eps, relative=relative)
    return (newton_schulz(X, ns_steps, ns_dtype) @ root).to(M.dtype)


def gram_root(
    M: Tensor,
    p: float,
    steps: int = 5,
    eps: float = 1e-6,
    side: Side = "right",
    relative: bool = False,
) -> Tensor:
    """Approximate (M^T M)^(p/2) by R = round(1 - log2 p) square roots, each by coupled Newton-Schulz steps.

        S <- M^T M + eps I
        R times:  a <- max(||S||_F, eps),   Y <- S / a,   Z <- I
                  repeat:  Q <- (3 I - Z Y) / 2,   Y <- Y Q,   Z <- Q Z
                  S <- sqrt(a) Y,   S <- (S + S^T) / 2 + eps I

    The power taken is 2^(1-R): for a p between two powers of 1/2 the nearer one (in the logarithm). As eps is
    added to squares, singular values well below its root, 1e-3, all get the same factor, 0.42 for p = 1/8.

    Args:
        M: (..., m, n), one matrix or a stack of them.
        p: twice the exponent of the Gram matrix, in (0, 1).
        steps: iterations of each square root; 5 in the released code, open in the paper. Gaussian 512 x 512
            with p = 1/8: relative error 0.32 after 5 and 0.01 after 15.
        eps: keeps the roots of singular Gram matrices stable.
        side: "right" for the Gram matrix M^T M, "small" for M M^T if m < n.
        relative: take M / ||M||_F and multiply by ||M||_F to the power taken, so that eps is relative to M
            and the result homogeneous in it; the released code does not.

    Returns:
        (..., n, n), or (..., m, m) for the small side, in the dtype of M, computed in float32 or better.

    Raises:
        ValueError: p is out of its range.

    Source: HTMuon paper, Algorithm "NS_root"; https://github.com/TDCSZ327/HTmuon,
        `gram_root_1_16_via_newtonschulz`, which this is. The paper adds eps to the norm instead of taking the
        maximum, and nothing to the first S: differences proportional to eps, of up to 31 eps when measured.
    """
    if not 0 < p < 1:
        raise ValueError(f"p must be a finite number in (0, 1) for the map ns_root, got {p!r}")
    if side == "small" and M.shape[-2] < M.shape[-1]:
        M = M.mT
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    rounds = round(1 - math.log2(p))
    if relative:
        norm = matrix_norm(X, keepdim=True).clamp(min=torch.finfo(X.dtype).tiny)
        root: Tensor = norm.pow(2.0 ** (1 - rounds)) * gram_root(X / norm, p, steps, eps)
        return root.to(M.dtype)
    I = torch.eye(X.shape[-1], dtype=X.dtype, device=X.device)  # noqa: E741 - the paper's symbol
    S = X.mT @ X + eps * I
    for _ in range(rounds):
        S = _square_root(S, I, steps, eps)
    return S.to(M.dtype)


def _square_root(S: Tensor, I: Tensor, steps: int, eps: float) -> Tensor:  # noqa: E741
    a = matrix_norm(S, keepdim=True).clamp(min=eps)
    Y, Z = S / a, I
    for step in range(steps):
        # Z = I in the first step and is not read after the last: 3 steps - 3 products instead of 3 steps
        Q = 1.5 * I - 0.5 * (Z @ Y if step else Y)
        if step < steps - 1:
            Z = Q @ Z if step else Q
        Y = Y @ Q
    S = a.sqrt() * Y
    return (S + S.mT) / 2 + eps * I
