"""Kin of SOAP for matrices: KL-SOAP and KL-Shampoo, with Gram matrices of whitened gradients; SOAP-Muon."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import UpdateRule, ema, matrix_view, second_moment
from htbench.optimizers.linalg import gram_basis, hold_columns, precise
from htbench.optimizers.soap import gather_grams, refresh, rotate, start
from htbench.optimizers.spectral.rule import SpectralRule, momentum, transform
from htbench.optimizers.stacks import norm, own_dims
from htbench.optimizers.zoo.spectral import SOAP_MUON
from htbench.optimizers.zoo.subspace import KL_SOAP

_FIRST, _LEAST = 0.1, 4000.0**-2  # of the eigenvalues, as in the original


class KLSOAP(UpdateRule):
    """SOAP in the bases of Kronecker factors that are near the gradients in KL divergence (KL-SOAP).

        at the first step L <- G G^T / n, R <- G^T G / m, with eigenvectors Q_L, Q_R; l, r <- 0.1; W stays
        Ghat <- Q_L^T G Q_R
        m <- b1 m + (1-b1) Ghat,   v <- b2 v + (1-b2) Ghat.Ghat
        W <- W - lr weight_decay W - lr Q_L m / (sqrt(v) + eps) Q_R^T
        X <- G Q_R diag(r)^(-1/2),   Y <- diag(l)^(-1/2) Q_L^T G           l, r of the step before
        L <- mu L + (1-mu) X X^T / n,   R <- mu R + (1-mu) Y^T Y / m
        l <- mu l + (1-mu) diag(Q_L^T X X^T Q_L) / n,   r <- mu r + (1-mu) diag(Q_R^T Y^T Y Q_R) / m
        if t mod k = 0:  Q_L <- QR(L Q_L), Q_R <- QR(R Q_R), and m is carried over

    With second_moment="factors" it is KL-Shampoo: sqrt(l r^T) stands for sqrt(v), and m averages G itself.

    Args:
        params: parameters; a kernel (o, i, h, w) is an o x (i h w) matrix, vectors are not rotated.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        betas: b1, b2.
        second_moment: "entries" or "factors", as above; where there is no matrix, entries.
        shampoo_beta: mu.
        precondition_frequency: k.
        eps: added to the root of v; the moments are not corrected for their start at zero.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2509.03378; https://github.com/KellerJordan/modded-nanogpt/pull/293, which
        also keeps the norm of W. l and r stay above 4000^-2, as there. "factors" follows the authors'
        https://github.com/yorkerlin/KL-Methods: the first L and R are (1-mu) times those above, and l and r
        of n eigenvalues stay above max(10, min(n, 4000))^-2.
    """

    table = KL_SOAP

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.018,
        *,
        weight_decay: float = 0.0,
        betas: Sequence[float] = (0.95, 0.9),
        second_moment: str = "entries",
        shampoo_beta: float = 0.9,
        precondition_frequency: int = 1,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, locals())

    def stackable(self, group: dict[str, Any]) -> bool:
        """Always."""
        return True

    def fallback(self, W: Tensor, group: dict[str, Any]) -> str:
        """Adam, where there is no matrix."""
        return "" if W.ndim >= 2 else "not rotated"

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor | None:
        """Return what lr multiplies in the block above, None at the first step."""
        G = precise(matrix_view(G, state))
        if "Q" not in state:
            matrix = len(own_dims(G, state)) == 2
            sides = {0: G, 1: G.mT} if matrix else {}
            state["L"] = {k: _mean_gram(A) for k, A in sides.items()}
            state["Q"] = {k: gram_basis(A) for k, A in sides.items()}
            state["eigenvalues"] = {k: torch.full_like(L[..., 0], _FIRST) for k, L in state["L"].items()}
            if matrix and group["second_moment"] == "factors":
                torch._foreach_mul_(list(state["L"].values()), 1 - group["shampoo_beta"])
            return None if G.isfinite().all() else G
        (b1, b2), t = group["betas"], state.get("step", 0) + 1
        state["step"] = t
        Ghat, factors = rotate(G, state["Q"]), group["second_moment"] == "factors" and bool(state["L"])
        if factors:
            l, r = state["eigenvalues"].values()  # noqa: E741 - the paper's symbol
            m, v = rotate(ema(state, "M", G, b1), state["Q"]), l.unsqueeze(-1) * r.unsqueeze(-2)
        else:
            m, v = ema(state, "m", Ghat, b1), second_moment(state, "v", Ghat, b2)
        D = rotate(m / v.sqrt().add_(group["eps"]), state["Q"], back=True)
        if state["L"]:
            _gather_whitened(G, Ghat, state, group["shampoo_beta"], factors)
        if t % group["precondition_frequency"] == 0:
            _turn(state)
        return D


def _mean_gram(A: Tensor) -> Tensor:
    return A @ A.mT / A.shape[-1]


def _gather_whitened(G: Tensor, Ghat: Tensor, state: dict[str, Any], mu: float, factors: bool) -> None:
    """Update L, R and l, r in place; each side is whitened by the other one of the step before."""
    Q, l, r = state["Q"], *(state["eigenvalues"][k].rsqrt() for k in (0, 1))  # noqa: E741 - the paper's symbol
    X, Xhat = G @ Q[1] * r.unsqueeze(-2), Ghat * r.unsqueeze(-2)
    Y, Yhat = Q[0].mT @ G * l.unsqueeze(-1), Ghat * l.unsqueeze(-1)
    for k, (A, Ahat) in enumerate(((X, Xhat), (Y.mT, Yhat.mT))):
        state["L"][k].lerp_(_mean_gram(A), 1 - mu)
        least = max(10, min(A.shape[-2], 4000)) ** -2.0 if factors else _LEAST
        state["eigenvalues"][k].lerp_(Ahat.square().mean(-1), 1 - mu).clamp_(min=least)


def _turn(state: dict[str, Any]) -> None:
    """Take one step of the QR iteration, and carry m over."""
    old = state["Q"]
    new = {k: torch.linalg.qr(hold_columns(L @ old[k], old[k], L)).Q for k, L in state["L"].items()}
    if "m" in state:
        state["m"] = rotate(rotate(state["m"], old, back=True), new)
    state["Q"] = new


class SOAPMuon(SpectralRule):
    """Muon on a momentum that is divided by its second moment in the bases of SOAP (SOAP-Muon).

        M <- beta M + (1-beta) G,   U <- (1-beta) G + beta M
        Uhat <- Q_L^T U Q_R,   v <- beta2 v + (1-beta2) Uhat.Uhat      from the second step on
        P <- Q_L Uhat / (sqrt(v) + eps) Q_R^T
        O <- map of ||U|| P / ||P||,   s <- sqrt(max(1, m/n))
        W <- W - lr weight_decay W - lr s O
        L, R, Q_L and Q_R as in SOAP: from the first gradient, QR(L Q_L) and QR(R Q_R) in every k-th step

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate.
        beta2: decay of v.
        shampoo_beta: decay of L and R.
        precondition_frequency: k.
        max_precond_dim: largest dimension that is rotated.
        eps: added to the root of v, and the least ||P||.
        shared: the keyword arguments of `SpectralRule`.

    Raises:
        ValueError: as `SpectralRule`.

    Source: https://nikhilvyas.github.io/SOAP_Muon.pdf, as in
        https://github.com/KellerJordan/modded-nanogpt/pull/278, of which Contra-Muon, the second moment of
        rows and the floor under the length of a step are left out.
    """

    table = SOAP_MUON

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.0375,
        *,
        beta2: float = 0.9,
        shampoo_beta: float = 0.9,
        precondition_frequency: int = 10,
        max_precond_dim: int = 10000,
        eps: float = 1e-8,
        **shared: Any,
    ) -> None:
        super().__init__(params, locals(), lr=lr, **shared)

    def shows_rounding(self, group: dict[str, Any]) -> bool:
        """Never: the bases change every so many steps."""
        return False

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return s O of the block above."""
        G = matrix_view(G, state)
        U = momentum(G, state, group)
        if "Q" not in state:
            start(precise(G), state, group)
        else:
            Uhat, t = rotate(precise(U), state["Q"]), state.get("step", 0) + 1
            v = second_moment(state, "v", Uhat, group["beta2"])
            P = rotate(Uhat / v.sqrt().add_(group["eps"]), state["Q"], back=True)
            U = P.mul_(norm(U, state) / norm(P, state).clamp_(min=group["eps"])).to(U.dtype)
            gather_grams(precise(G), state, group)
            state["step"] = t
            if t % group["precondition_frequency"] == 0:
                refresh(state)
        O = transform(U, state, group)  # noqa: E741 - the paper's symbol
        m, n = O.shape[-2:]
        return O.mul(math.sqrt(max(1, m / n)))
