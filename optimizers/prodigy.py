"""AdamW that finds its own learning rate, from all gradients of a group together."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import UpdateRule
from htbench.optimizers.zoo.elementwise import PRODIGY


class Prodigy(UpdateRule):
    """AdamW whose rate d is a lower bound of the distance from the first weights to a solution (Prodigy).

        m <- b1 m + (1-b1) d G,   v <- b2 v + (1-b2) d^2 G.G
        r <- b3 r + (d/d0) d lr <G, W0 - W>,   s <- b3 s + (d/d0) d lr G         b3 = sqrt(b2)
        d' = max(d, growth r / ||s||_1)
        W <- W - d lr weight_decay W - d lr m / (sqrt(v) + d' eps),   d <- d'

    <,> and || ||_1 go over all parameters of a group, which has one r and one d. At lr = 0 nothing happens.

    Args:
        params: parameters of any shape.
        lr: factor of the rate d; leave it at 1, with the schedule of AdamW.
        weight_decay: decoupled weight decay.
        betas: b1, b2.
        d0: the first d, smaller than any rate that could be right.
        growth: factor of the estimate, the one thing to tune if any (d_coef of the released code).
        bias_correction: divide m and v by 1-b1^t and 1-b2^t, as AdamW does.
        safeguard_warmup: s <- b3 s + (d/d0) d G, so that small rates of a warm-up don't drive d up.
        eps: keeps the division finite.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2306.06101, Algorithm 4; https://github.com/konstmish/prodigy. It has
        one d for all groups, which then must have one lr; ours has one for each.
    """

    table = PRODIGY
    shaped = False
    separable = False

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        *,
        weight_decay: float = 0.1,
        betas: Sequence[float] = (0.9, 0.999),
        d0: float = 1e-6,
        growth: float = 1.0,
        bias_correction: bool = False,
        safeguard_warmup: bool = False,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Take m, v and s of the block above; the rest needs those of all parameters."""
        if group["lr"] == 0:
            return
        if not state:
            state["W0"] = params[0].clone()
            state |= {key: torch.zeros_like(G) for key in ("m", "v", "s")}
        (b1, b2), d, rate = group["betas"], group.setdefault("d", group["d0"]), _rate(group)
        state["m"].mul_(b1).add_(G, alpha=(1 - b1) * d)
        state["v"].mul_(b2).addcmul_(G, G, value=(1 - b2) * d * d)
        weight = d / group["d0"] * (d if group["safeguard_warmup"] else rate)
        s = state["s"].mul_(math.sqrt(b2)).add_(G, alpha=weight)
        state["inner"] = torch.dot(G.flatten(), (state["W0"] - params[0]).flatten())
        state["norm"] = torch.linalg.vector_norm(s, 1)

    def conclude(self, moving: list[Tensor], group: dict[str, Any]) -> None:
        """Estimate d from all parameters of the group, and move them."""
        if group["lr"] == 0 or not moving:
            return
        states, d, rate = [self.state[W] for W in moving], group["d"], _rate(group)
        told = torch.stack([state[key] for key in ("inner", "norm") for state in states])
        inner, norm = told.double().view(2, -1).sum(1).tolist()  # a GPU waits once
        if norm == 0:
            return  # no gradient has been anything but zero
        group["r"] = math.sqrt(group["betas"][1]) * group.get("r", 0.0) + d / group["d0"] * rate * inner
        group["d"] = max(d, group["growth"] * group["r"] / norm)
        group["steps"] = group.get("steps", 0) + 1
        for W, state in zip(moving, states, strict=True):
            denominator = state["v"].sqrt().add_(group["d"] * group["eps"])
            if group["weight_decay"]:
                W.mul_(1 - rate * group["weight_decay"])
            W.addcdiv_(state["m"], denominator, value=-rate)


def _rate(group: dict[str, Any]) -> float:
    """d lr, with the bias corrections of Adam if asked for."""
    (b1, b2), t = group["betas"], group.get("steps", 0) + 1
    correction = math.sqrt(1 - b2**t) / (1 - b1**t) if group["bias_correction"] else 1.0
    rate: float = group["d"] * group["lr"] * correction
    return rate
