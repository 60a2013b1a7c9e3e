"""Adam with another momentum (AdEMAMix), and in another order (ADOPT)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import UpdateRule, ema, kept, second_moment
from htbench.optimizers.stacks import parts
from htbench.optimizers.zoo.elementwise import ADEMAMIX
from htbench.optimizers.zoo.elementwise import ADOPT as ADOPT_TABLE


class AdEMAMix(UpdateRule):
    """AdamW with a second, far slower momentum beside the first (AdEMAMix).

        m <- b1 m + (1-b1) G,   n <- b3(t) n + (1-b3(t)) G,   v <- b2 v + (1-b2) G.G
        W <- W - lr weight_decay W - lr (m / (1-b1^t) + alpha(t) n) / (sqrt(v / (1-b2^t)) + eps)

    n starts at zero without a correction. With `warmup` T, alpha(t) = alpha t/T and the half-life of b3(t)
    grows linearly from that of b1 to that of b3, up to step T; without it both are at once what they end as.

    Args:
        params: parameters of any shape.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        betas: b1, b2, b3.
        alpha: weight of the slow momentum.
        warmup: T in steps; the paper takes the length of the run. 0: none.
        eps: keeps the division finite.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2409.03137, Algorithm 1; https://github.com/apple/ml-ademamix, which has a T
        each for alpha and b3. The paper and the code's example give both the same.
    """

    table = ADEMAMIX

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        *,
        weight_decay: float = 0.1,
        betas: Sequence[float] = (0.9, 0.999, 0.9999),
        alpha: float = 2.0,
        warmup: int = 0,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above."""
        t = state["step"] = state.get("step", 0) + 1
        (b1, b2, b3), alpha, rate = group["betas"], group["alpha"], group["lr"]
        if t < group["warmup"]:
            done = t / group["warmup"]
            alpha, b3 = alpha * done, _of_half_life((1 - done) * _half_life(b1) + done * _half_life(b3))
        m, n, v = ema(state, "m", G, b1), ema(state, "n", G, b3), second_moment(state, "v", G, b2)
        root, correction = math.sqrt(1 - b2**t), 1 - b1**t
        denominators = parts(v.sqrt().add_(group["eps"] * root), state)
        torch._foreach_mul_(params, 1 - rate * group["weight_decay"])
        momentum = parts(torch.add(m, n, alpha=alpha * correction), state)
        torch._foreach_addcdiv_(params, momentum, denominators, value=-rate * root / correction)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: every entry is on its own."""
        return True


def _half_life(beta: float) -> float:
    """Steps until an average with this decay has forgotten half, less one, as the released code counts."""
    return math.log(0.5) / math.log(beta + 1e-8) - 1


def _of_half_life(steps: float) -> float:
    decay: float = 0.5 ** (1 / (steps + 1))
    return decay


class ADOPT(UpdateRule):
    """Adam that divides by the second moment before this gradient, and takes the momentum after it (ADOPT).

        v <- G.G                                            at step 0, which does not move W
        c <- clip(G / max(sqrt(v), eps), -t^(1/4), t^(1/4))
        m <- b1 m + (1-b1) c
        W <- W - lr weight_decay W - lr m
        v <- b2 v + (1-b2) G.G

    So G and what it is divided by are independent, and the method converges with any b2.

    Args:
        params: parameters of any shape.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        betas: b1, b2.
        eps: lower bound of the divisor.
        clip: as above.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2411.02853, Algorithm 2; https://github.com/iShohei220/adopt, whose weight
        decay is coupled by default (`decouple=False`). The paper's language models take the decoupled one.
    """

    table = ADOPT_TABLE

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        *,
        weight_decay: float = 0.1,
        betas: Sequence[float] = (0.9, 0.9999),
        eps: float = 1e-6,
        clip: bool = True,
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above."""
        t, (b1, b2) = state.get("step", 0), group["betas"]
        state["step"] = t + 1
        m, v = kept(state, "m", G), kept(state, "v", G)
        if t == 0:
            v.addcmul_(G, G)
            return
        c = torch.div(G, v.sqrt().clamp_(min=group["eps"]))
        if group["clip"]:
            c.clamp_(-(t**0.25), t**0.25)
        m.lerp_(c, 1 - b1)
        if group["weight_decay"]:
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(params, parts(m, state), alpha=-group["lr"])
        second_moment(state, "v", G, b2)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: every entry is on its own."""
        return True
