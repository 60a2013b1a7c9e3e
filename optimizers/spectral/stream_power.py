"""The map of HTMuon_Stream: a power of the singular values by an SVD that goes on from step to step."""

from typing import Any

import torch
from torch import Tensor

from htbench.optimizers.spectral.exact import check_power


def stream_power(
    M: Tensor, p: float, state: dict[str, Any], rank: int | None = None, eps: float = 1e-8
) -> Tensor:
    """Approximate U S^p V^T by one step of the power iteration for V, which starts at the previous V.

        V <- Q of the QR decomposition of M^T (M V)                    at first the first k columns of I
        R <- M V,   c <- norms of the columns of R
        O <- R diag(c^(p-1)) V^T,   with 0 for c^(p-1) where c <= eps

    While M changes little from step to step, V follows its right singular vectors and c its singular values.
    Until it has caught up the columns of R are not orthogonal: the first O of a Gaussian 64 x 64 matrix is
    off by 0.3 (p = 1/8). With k below min(m, n) the other directions get nothing.

    Args:
        M: (..., m, n), one matrix or a batch of them.
        p: exponent of the singular values, in [0, 1].
        state: of the parameter; V is its entry "basis", (..., n, k), in float32 or better.
        rank: k, the number of directions that V follows, at most min(m, n); None takes them all.
        eps: a singular value up to this counts as zero.

    Returns:
        as many matrices in the dtype of M.

    Raises:
        ValueError: p is out of its range.

    Source: https://github.com/TDCSZ327/HTmuon, `HTMuonWithAuxAdam_Stream`; not in the paper. The code
        divides R by c and multiplies by the norms it then measures again, to the power p: the same up to
        rounding.
    """
    check_power(p, "stream_power", low=0)
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    if "basis" not in state:
        m, n = X.shape[-2:]
        k = min(m, n) if rank is None else min(m, n, rank)
        state["basis"] = torch.eye(n, k, dtype=X.dtype, device=X.device)
    V = state["basis"] = torch.linalg.qr(X.mT @ (X @ state["basis"])).Q
    R = X @ V
    c = torch.linalg.vector_norm(R, dim=-2, keepdim=True)
    O: Tensor = R * c.pow(p - 1).where(c > eps, 0) @ V.mT  # noqa: E741 - the paper's symbol
    return O.to(M.dtype)
