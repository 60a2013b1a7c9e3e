"""Muown: Muon on the directions of the rows of W, and Adam on their lengths."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.adam import adam_direction
from htbench.optimizers.base import matrix_view
from htbench.optimizers.linalg import precise
from htbench.optimizers.muon import SCALE_RULES
from htbench.optimizers.spectral.rule import SpectralRule, momentum, transform
from htbench.optimizers.stacks import Stack, parts
from htbench.optimizers.zoo.spectral import MUOWN

_TINY = 1e-12  # instead of the length of a row of zeros


class Muown(SpectralRule):
    """Muon with the weights written as W = diag(g / ||V_i||) V, a length g and a direction V for each row.

        U <- diag(1/g) W,   V <- diag(r) U                    g = r = ||W_i||, the lengths of rows, at first
        a <- rowsum(G.U),   D <- diag(g/r) (G - diag(a) U)    the gradients of g and V
        V <- V - lr s O                                       O is the map of the momentum of D, as in Muon
        g <- g - lr (step of Adam for a)
        r <- ||V_i||
        W <- diag(g/r) V - lr weight_decay W,   g <- ||W_i|| if there is a decay

    A row's length grows by what Adam says only. Under Muon it drifts upwards, and the spectral norm with it.

    Args:
        params: parameters with at least two dimensions; a kernel (o, i, h, w) is an o x (i h w) matrix.
        lr: learning rate of V and g.
        scale_rule: s, as in `Muon`; with "rms0.2" one rate suits both halves.
        betas, eps: of Adam.
        shared: the keyword arguments of `SpectralRule`; `conv_reference_quirk` changes nothing.

    Raises:
        ValueError: as `SpectralRule`.

    Source: https://arxiv.org/abs/2605.10797; https://github.com/kcc-lion/muown.

    Differences: rows of zeros start with a length of 1e-12, where the original divides by zero. So they do in
        NVIDIA's class of this name, whose decay shrinks g instead of W. In result 23 of track 3, r follows a
        schedule by which angles shrink beside lr, and Newton-Schulz takes 12 steps of Polar Express.
    """

    table = MUOWN
    shaped = False

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        *,
        scale_rule: str = "rms0.2",
        ema: bool = False,
        betas: Sequence[float] = (0.9, 0.95),
        eps: float = 1e-8,
        **shared: Any,
    ) -> None:
        super().__init__(params, locals(), lr=lr, ema=ema, **shared)

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above."""
        W = precise(matrix_view(torch.stack(params) if isinstance(state, Stack) else params[0], state))
        G, lr = precise(matrix_view(G, state)), group["lr"]
        if "g" not in state:
            state["g"] = _lengths(W)
            state["r"] = state["g"].clone()
        g, r = state["g"], state["r"]
        U = W / g
        a = (G * U).sum(-1, keepdim=True)
        D = torch.addcmul(G, a, U, value=-1).mul_(g / r)
        O = transform(momentum(D, state, group), state, group)  # noqa: E741 - the paper's symbol
        step = adam_direction(a, state, group["betas"], group["eps"])
        if not lr:  # the block would round W
            return
        V = U.mul_(r).sub_(O, alpha=lr * SCALE_RULES[group["scale_rule"]](*O.shape[-2:]))
        g.sub_(step, alpha=lr)
        r.copy_(_lengths(V))
        new = V.mul_(g / r)
        if group["weight_decay"]:
            new.sub_(W, alpha=lr * group["weight_decay"])
            g.copy_(_lengths(new))
        for one, found in zip(params, parts(new, state), strict=True):
            one.copy_(found.view(one.shape))


def _lengths(W: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(W, dim=-1, keepdim=True)
    return found.clamp_(min=_TINY)
