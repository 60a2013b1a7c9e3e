"""SOAP: Adam in the eigenbasis of Shampoo's Gram matrices."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import UpdateRule, ema, second_moment
from htbench.optimizers.linalg import gram_basis, hold_columns, precise
from htbench.optimizers.stacks import Stack
from htbench.optimizers.zoo.subspace import SOAP as SOAP_TABLE

Bases = dict[int, Tensor]  # for each dimension of the parameter that is rotated


class SOAP(UpdateRule):
    """Adam in the eigenbasis of Shampoo's preconditioner, followed by a QR iteration now and then (SOAP).

        L <- mu L + (1-mu) G G^T,   R <- mu R + (1-mu) G^T G           from zero
        at the first step Q_L, Q_R <- eigenvectors of L and R, and W stays; at the others, t = 1, 2, ...
        Ghat <- Q_L^T G Q_R                                            with the bases of the step before
        m <- b1 m + (1-b1) Ghat,   v <- b2 v + (1-b2) Ghat.Ghat
        N <- sqrt(1-b2^t) / (1-b1^t) m / (sqrt(v) + eps)
        W <- (1 - lr weight_decay) (W - lr Q_L N Q_R^T)
        if t mod k = 0:  Q_L <- QR(L Q_L), Q_R <- QR(R Q_R)            and m, v as below

    New bases have their columns by descending eigenvalue. m is carried over into them by a rotation; the
    entries of v only change places with the columns.

    Args:
        params: parameters of any shape; every dimension of a tensor has its Gram matrix and basis, and
            kernels are not flattened. Vectors, and dimensions above `max_precond_dim`, are not rotated, which
            leaves plain Adam.
        lr: learning rate.
        weight_decay: decoupled weight decay, after the update.
        betas: b1, b2.
        shampoo_beta: mu; None takes b2.
        precondition_frequency: k.
        max_precond_dim: largest dimension that is rotated.
        eps: added to the root of v before the bias correction.
        correct_bias: whether N has the factor in front.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2409.11321; https://github.com/nikhilvyas/SOAP; HTMuon paper, Algorithm
        "SOAP". We are the released code (its `merge_dims` and `precondition_1d` are off by default and not
        ours). The block has G_A and G_B gather the rotated gradient plus eps I, does not carry m over, has no
        first step, no sorting and no weight decay, cuts parameters into blocks and clips (with a max for a
        min); no released code does. Like the paper's authors we keep the state in float32 at least.
    """

    table = SOAP_TABLE
    reads_rates = True

    def __init__(
        self,
        params: ParamsT,
        lr: float = 3e-3,
        *,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.95, 0.95),
        shampoo_beta: float | None = None,
        precondition_frequency: int = 10,
        max_precond_dim: int = 10000,
        eps: float = 1e-8,
        correct_bias: bool = True,
    ) -> None:
        super().__init__(params, locals())

    def fallback(self, W: Tensor, group: dict[str, Any]) -> str:
        """Adam, where no dimension is rotated."""
        return "" if _rotated(W.shape, group) else "not rotated"

    def stackable(self, group: dict[str, Any]) -> bool:
        """Always."""
        return True

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor | None:
        """Return (1 - lr weight_decay) Q_L N Q_R^T of the block above, None at the first step."""
        G = precise(G)
        if "Q" not in state:
            return start(G, state, group)
        (b1, b2), Q = group["betas"], state["Q"]
        t = state["step"] = state.get("step", 0) + 1
        Ghat = rotate(G, Q)
        m, v = ema(state, "m", Ghat, b1), second_moment(state, "v", Ghat, b2)
        correction = math.sqrt(1 - b2**t) / (1 - b1**t) if group["correct_bias"] else 1
        N = m / v.sqrt().add_(group["eps"])
        D = rotate(N, Q, back=True).mul_(correction * (1 - group["lr"] * group["weight_decay"]))
        gather_grams(G, state, group)
        if t % group["precondition_frequency"] == 0:
            refresh(state)
        return D


def rotate(X: Tensor, Q: Bases, *, back: bool = False) -> Tensor:
    """Multiply each dimension of X by its basis, if it has one: Q_L^T X Q_R; with `back` the inverse.

    X may be a stack along one more dimension, the first; each Q is then one, too.
    """
    first = max((one.ndim - 2 for one in Q.values()), default=0)
    for k in range(X.ndim - first):  # each turn takes the first dimension of its own and puts it last
        X = X.movedim(first, -1)
        if k in Q:
            rows = X.flatten(first, -2) @ (Q[k].mT if back else Q[k])
            X = rows.view(*X.shape[:-1], -1)
    return X


def start(G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor | None:
    """Make L and Q. The weight stays, unless the gradient says that the run has diverged."""
    first = int(isinstance(state, Stack))
    own = G.shape[first:]
    state["L"] = {k: G.new_zeros(*G.shape[:first], own[k], own[k]) for k in _rotated(own, group)}
    gather_grams(G, state, group)
    state["Q"] = {k: gram_basis(_unfold(G, k, first)) for k in state["L"]}
    return None if G.isfinite().all() else G


def _rotated(shape: Sequence[int], group: dict[str, Any]) -> list[int]:
    """The dimensions that have a basis of their own."""
    return [k for k, n in enumerate(shape) if len(shape) > 1 and 1 < n <= group["max_precond_dim"]]


def gather_grams(G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """L <- mu L + (1-mu) A A^T in place, for A the matrix with dimension k of G as its rows."""
    mu = group["betas"][1] if group["shampoo_beta"] is None else group["shampoo_beta"]
    first = int(isinstance(state, Stack))
    for k, L in state["L"].items():
        A = _unfold(G, k, first)
        (L.baddbmm_ if first else L.addmm_)(A, A.mT, beta=mu, alpha=1 - mu)


def _unfold(G: Tensor, k: int, first: int) -> Tensor:
    """G as a matrix with its dimension k as the rows; with `first` = 1 each of a stack."""
    return G.movedim(first + k, first).flatten(first + 1)


def refresh(state: dict[str, Any]) -> None:
    """Take one step of the QR iteration towards the eigenvectors of each L, and carry m and v over."""
    Q: Bases = state["Q"]
    new: Bases = {}
    first = int(isinstance(state, Stack))
    for k, L in state["L"].items():
        Y = hold_columns(L @ Q[k], Q[k], L)
        order = (Q[k] * Y).sum(-2).argsort(descending=True)  # by the diagonal of Q^T L Q
        new[k] = torch.linalg.qr(_sorted(Y, order, first + 1)).Q
        state["v"] = _sorted(state["v"], order, first + k)
    if "m" in state:
        state["m"] = rotate(rotate(state["m"], Q, back=True), new)
    state["Q"] = new


def _sorted(X: Tensor, order: Tensor, dim: int) -> Tensor:
    """X with the entries of a dimension in this order (n,), or each of a stack in its own (B, n)."""
    if order.ndim == 1:
        return X.index_select(dim, order)
    shape = [len(order), *[1] * (X.ndim - 1)]
    shape[dim] = -1
    return X.take_along_dim(order.view(shape), dim)
