"""COSMOS: Adam in the leading subspace of the gradients, Muon in the rest."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.adam import adam_direction
from htbench.optimizers.base import UpdateRule, ema, kept, second_moment
from htbench.optimizers.linalg import gram_basis, hold_columns, precise, singular_vectors
from htbench.optimizers.spectral.newton_schulz import QUINTIC, newton_schulz
from htbench.optimizers.spectral.products import DTYPES, fused, matmul
from htbench.optimizers.stacks import norm, own_dims
from htbench.optimizers.zoo.subspace import COSMOS as COSMOS_TABLE


class COSMOS(UpdateRule):
    """Adam in a low-rank subspace of the gradients, Newton-Schulz on the rest of the momentum (COSMOS).

        M <- b1 M + (1-b1) G
        U' <- QR(b3 U S + (1-b3) G^T G U)                       at t = 1: leading eigenvectors of G^T G
        S <- b3 U'^T U S U^T U' + (1-b3) (G U')^T (G U'),   U <- U'
        V <- b2 V + (1-b2) (G U).(G U)
        A <- (M U / (1-b1^t)) / (sqrt(V / (1-b2^t)) + eps) U^T
        B <- NewtonSchulz5(M - M U U^T)
        Gt <- A + gamma sqrt(m n) B / ||B||
        W <- W - lr weight_decay W - lr lr_ratio sqrt(m n) Gt / ||Gt||

    with U (n, r), S (r, r), V (m, r) for an m x n matrix. The update's norm is lr lr_ratio sqrt(m n).

    Args:
        params: parameters of any shape. Those that are not matrices, and matrices with more than `max_rows`
            rows, get Adam at the full lr.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        betas: b1, b2, b3.
        rank: r; at most n is used. With r = n the subspace is the whole space, and B is zero.
        lr_ratio: as above.
        gamma: as above; None means lr_ratio.
        eps: added to the bias-corrected root of V, to ||B|| and to ||Gt||. With "ema" it is added to
            lr ||Gt|| instead of ||Gt||, as in the released code.
        momentum_rule: "ema": M as above. "nesterov": M <- b1 M + G, and (G + b1 M) / (1 + b1 (1-b1^t) /
            (1-b1)) replaces both M and M / (1-b1^t) in A and B. "gradient": there G (1-b1) / (1-b1^t) does.
        side: "right" as above; "left" applies the block to the transposes of W and G.
        split_qkv: apply Newton-Schulz to each third of the rows where m = 3n (with "left": to each third of
            the columns where n = 3m), since the matrix may be a fused query, key and value.
        ns_steps, ns_dtype: number and precision of the Newton-Schulz iterations.
        max_rows: as above.
        fallback_beta1: f in the Adam of the other parameters: its first moment is m <- b1 m + (1-f) G, and
            the bias-corrected one m / (1 - f^t). None means b1.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2502.17410; https://github.com/lliu606/COSMOS;
        https://github.com/TDCSZ327/HTmuon; HTMuon paper, Algorithm "COSMOS".

    Differences: the paper's block has eps inside the root and does not define NORM; in all released code it
    is NORM(X) = sqrt(n) X / ||X||. Our defaults are those with which the HTMuon authors call the class
    COSMOS_for_llama. That class accepts weight_decay but does not apply it; ours does (0 gives the released
    behaviour). COSMOS_for_gpt is side="left", split_qkv=True. The class COSMOS of the original code is
    momentum_rule="nesterov", gamma=0.2, fallback_beta1=0.9, with one beta for b2 and b3; without Nesterov it
    ignores the momentum by mistake, which is "gradient" here. For a bfloat16 parameter the released code
    keeps U, S and V in bfloat16, ours in float32.
    """

    table = COSMOS_TABLE
    reads_rates = True

    def __init__(
        self,
        params: ParamsT,
        lr: float = 3e-3,
        *,
        weight_decay: float = 0.1,
        betas: tuple[float, float, float] = (0.9, 0.95, 0.95),
        rank: int = 64,
        lr_ratio: float = 0.25,
        gamma: float | None = None,
        eps: float = 1e-8,
        momentum_rule: str = "ema",
        side: str = "right",
        split_qkv: bool = False,
        ns_steps: int = 5,
        ns_dtype: str = "bfloat16",
        max_rows: int = 10000,
        fallback_beta1: float | None = None,
    ) -> None:
        super().__init__(params, locals())

    def fallback(self, W: Tensor, group: dict[str, Any]) -> str:
        """Name the two cases without Newton-Schulz: plain Adam, and a subspace that is the whole space."""
        if W.ndim != 2 or len(W) > group["max_rows"]:
            return "Adam"
        n = W.shape[group["side"] == "right"]
        return f"rank {group['rank']} covers all {n} columns" if group["rank"] >= n else ""

    def stackable(self, group: dict[str, Any]) -> bool:
        """Always."""
        return True

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return lr_ratio sqrt(m n) Gt / ||Gt|| of the block above, or Adam's direction."""
        if len(own_dims(G, state)) != 2 or G.shape[-2] > group["max_rows"]:
            return _adam(G, state, group)
        if group["side"] == "left":
            return self._right(G.mT, state, group).mT
        return self._right(G, state, group)

    def _right(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        (b1, b2, b3), eps, lr_ratio = group["betas"], group["eps"], group["lr_ratio"]
        gamma = lr_ratio if group["gamma"] is None else group["gamma"]
        t = state["step"] = state.get("step", 0) + 1
        M, correction = _momentum(G, state, b1, group["momentum_rule"])
        U, GU = _follow(precise(G), state, b3, group["rank"])
        V = second_moment(state, "V", GU, b2)
        MU = M @ U
        Gt = MU / V.sqrt().div_(math.sqrt(1 - b2**t)).add_(eps).mul_(correction) @ U.mT  # A
        root = math.sqrt(math.prod(G.shape[-2:]))
        if U.shape[-1] < U.shape[-2]:
            B = _outside(fused(M, MU, U.mT, alpha=-1), group)
            Gt.addcmul_(B, gamma * root / (norm(B, state) + eps))
        unit = group["lr"] if group["momentum_rule"] == "ema" else 1
        return Gt.mul_(lr_ratio * root * unit / (unit * norm(Gt, state) + eps))


def _momentum(G: Tensor, state: dict[str, Any], b1: float, rule: str) -> tuple[Tensor, float]:
    """Update the momentum; return what the block uses as M, and the divisor 1-b1^t of A (1 if applied)."""
    c = 1 - b1 ** state["step"]
    if rule == "ema":
        return precise(ema(state, "M", G, b1)), c
    if rule == "gradient":
        return precise(G) * ((1 - b1) / c), 1.0
    B = kept(state, "M", G).mul_(b1).add_(G)
    return precise(G).add(B, alpha=b1).div_(1 + b1 * c / (1 - b1)), 1.0


def _follow(G: Tensor, state: dict[str, Any], b3: float, rank: int) -> tuple[Tensor, Tensor]:
    """Update the bases U and Gram matrices S (r, r) with the gradients G (m, n); return U and G U (m, r)."""
    if "U" not in state:
        # The last vectors of all need care, and where G has fewer than `rank` some are arbitrary.
        few = rank < min(G.shape[-2:])
        U = (
            singular_vectors(G.mT @ G, rank, right=False)
            if few
            else gram_basis(G.mT)[..., :rank].contiguous()
        )
        GU = G @ U
        S = (GU.mT @ GU).mul_(1 - b3)
    else:
        old, S = state["U"], state["S"]
        Y = fused(old @ S, G.mT, G @ old, beta=b3, alpha=1 - b3)
        U = torch.linalg.qr(hold_columns(Y, old, S)).Q
        GU, T = G @ U, old.mT @ U
        S = fused(T.mT @ (S @ T), GU.mT, GU, beta=b3, alpha=1 - b3)
    state["U"], state["S"] = U, S
    return U, GU


def _outside(X: Tensor, group: dict[str, Any]) -> Tensor:
    """Apply Newton-Schulz to X, or to each third of its rows if `split_qkv` applies to its shape."""
    thirds = 3 if group["split_qkv"] and X.shape[-2] == 3 * X.shape[-1] else 1
    dtype = DTYPES[group["ns_dtype"]]
    return torch.cat([_newton_schulz(part, group["ns_steps"], dtype) for part in X.chunk(thirds, -2)], -2)


def _newton_schulz(X: Tensor, steps: int, dtype: torch.dtype) -> Tensor:
    """Like `newton_schulz`, but with the products in the order of COSMOS: in bfloat16 the result differs.

    A GPU would start two thirds more kernels, for more rounding.
    """
    if X.is_cuda:
        return newton_schulz(X, steps, dtype)
    if X.shape[-2] > X.shape[-1]:
        return _newton_schulz(X.mT, steps, dtype).mT
    a, b, c = QUINTIC
    Y: Tensor = X.to(dtype)
    Y = Y / (torch.linalg.matrix_norm(Y, keepdim=True) + 1e-7)
    for _ in range(steps):
        A = matmul(Y, Y.mT)
        B = matmul(A, Y)
        Y.mul_(a).add_(b * B).add_(matmul(c * A, B))
    return Y.to(X.dtype)


def _adam(G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    (b1, b2, _), f = group["betas"], group["fallback_beta1"]
    D = adam_direction(G, state, (b1, b2), group["eps"])
    t = state["step"]
    return D if f is None else D.mul_((1 - f) / (1 - b1) * (1 - b1**t) / (1 - f**t))
