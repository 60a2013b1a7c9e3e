"""AdamW that needs no schedule of the learning rate, since what is evaluated is an average."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import UpdateRule, second_moment
from htbench.optimizers.stacks import Stack, parts
from htbench.optimizers.zoo.elementwise import SCHEDULE_FREE


class ScheduleFree(UpdateRule):
    """AdamW on a sequence z whose weighted mean x is the result; gradients are taken at y between the two.

        v <- b2 v + (1-b2) G.G,   s <- G / (sqrt(v / (1-b2^t)) + eps) + weight_decay y
        z <- z - lr s
        x <- (1-c) x + c z                      c = lr_max^2 / (sum of lr_max^2 over all steps)
        y <- (1-b1) z + b1 x

    The parameters hold y in training. `eval` puts x in their place and `train` puts y back: the loss of x is
    the one to report. Three names, but only z is kept beside W: x follows from y and z. The learning rate is
    meant to be constant after a warm-up; lr_max is the largest one so far.

    Args:
        params: parameters of any shape.
        lr: learning rate.
        weight_decay: decoupled weight decay, at y.
        betas: b1, b2. The larger b1, the closer are gradients taken to the mean.
        eps: keeps the division finite.

    Raises:
        ValueError: a hyperparameter is out of its range.
        RuntimeError: a step after `eval` without `train`.

    Source: https://arxiv.org/abs/2405.15682, Algorithm 1; https://github.com/facebookresearch/schedule_free,
        class AdamWScheduleFree. Its warm-up is the run's schedule here. Its objects begin in evaluation.
    """

    table = SCHEDULE_FREE
    shaped = False

    def __init__(
        self,
        params: ParamsT,
        lr: float = 2.5e-3,
        *,
        weight_decay: float = 0.1,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above, on y and z."""
        if group.get("averaged"):
            raise RuntimeError("the parameters hold the average: call train() before step()")
        (b1, b2), lr, eps = group["betas"], group["lr"], group["eps"]
        if "z" not in state:
            state["z"] = torch.stack(params) if isinstance(state, Stack) else params[0].clone()
        t = state["step"] = state.get("step", 0) + 1
        largest = state["lr_max"] = max(lr, state.get("lr_max", 0.0))
        earlier, state["b1"] = state.get("b1", b1), b1
        if earlier != b1:  # set by a scheduler or by hand: the mean stays what it is
            torch._foreach_lerp_(params, parts(state["z"], state), 1 - b1 / earlier)
        total = state["weights"] = state.get("weights", 0.0) + largest**2
        c = largest**2 / total if total else 0.0
        z, v, root = state["z"], second_moment(state, "v", G, b2), math.sqrt(1 - b2**t)
        s = torch.div(G, v.div(root**2).sqrt_().add_(eps))
        if group["weight_decay"]:
            torch._foreach_add_(parts(s, state), params, alpha=group["weight_decay"])
        # y in terms of itself: the new mean is x + c (z - x), and the two differ by (z - y) / b1
        torch._foreach_lerp_(params, parts(z, state), c)
        torch._foreach_add_(params, parts(s, state), alpha=lr * (b1 * (1 - c) - 1))
        z.sub_(s, alpha=lr)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: every entry is on its own."""
        return True

    def eval(self) -> None:
        """Put the mean x in the place of y."""
        self._hold(averaged=True)

    def train(self) -> None:
        """Put y, where gradients are taken, in the place of x. Up to rounding it is the one before."""
        self._hold(averaged=False)

    @torch.no_grad()
    def _hold(self, *, averaged: bool) -> None:
        for group in self.param_groups:
            if group.get("averaged", False) is not averaged:
                group["averaged"] = averaged
                for W in group["params"]:
                    if "z" in self.state.get(W, ()):
                        b1 = self.state[W].get("b1", group["betas"][0])
                        W.lerp_(self.state[W]["z"], 1 - 1 / b1 if averaged else 1 - b1)
