"""Rows and columns of one length, before a map of the singular values (MuonEq) or after it (Muon+)."""

import torch
from torch import Tensor

_DIMS = {"row": -1, "column": -2}
_EPS = 1e-7


def equalize(M: Tensor, sides: str) -> Tensor:
    """Divide each row of M, or each column, by its norm: M has then fewer small singular values (MuonEq).

    Args:
        M: (..., m, n), one matrix or a stack of them.
        sides: "row", "column", "row_column" for both by the norms that they have in M, or "none".

    Source: https://arxiv.org/abs/2603.28254; https://github.com/MaeChd/muon-eq, which adds 1e-8 to squared
        norms where we have a least norm.
    """
    X = M
    for side in sides.split("_") if sides != "none" else ():
        X = X / torch.linalg.vector_norm(M, dim=_DIMS[side], keepdim=True).clamp(min=_EPS)
    return X


def normalize(O: Tensor, sides: str) -> Tensor:  # noqa: E741 - the paper's symbol
    """Divide each row of an update, or each column, by its norm, one after the other (Muon+).

    Args:
        O: (..., m, n), one matrix or a stack of them.
        sides: "row", "column", "row_column", "column_row" or "none".

    Source: https://arxiv.org/abs/2602.21545; https://github.com/K1seki221/MuonPlus.
    """
    if sides != "none":
        for side in sides.split("_"):
            O = O * (O.square().sum(_DIMS[side], keepdim=True) + _EPS).rsqrt()  # noqa: E741
    return O
