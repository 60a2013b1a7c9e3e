"""Every entry moves by the same length, along the sign of a momentum: Lion, and Signum before it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.base import UpdateRule, ema, kept
from htbench.optimizers.stacks import parts
from htbench.optimizers.zoo.elementwise import LION, SIGNUM


class Lion(UpdateRule):
    """The sign of a momentum that trusts the newest gradient more than the one it keeps (Lion).

        c <- b1 m + (1-b1) G,   m <- b2 m + (1-b2) G
        W <- W - lr weight_decay W - lr sign(c)

    Args:
        params: parameters of any shape.
        lr: learning rate, which is also how far each entry moves in a step.
        weight_decay: decoupled weight decay.
        betas: b1, b2.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2302.06675, Algorithm 2; https://github.com/google/automl, folder lion. The
        paper wants a rate 3 to 10 times smaller than that of AdamW, and a weight decay as many times larger:
        the defaults are a third and three times ours of `adamw`.
    """

    table = LION

    def __init__(
        self,
        params: ParamsT,
        lr: float = 3e-4,
        *,
        weight_decay: float = 0.3,
        betas: Sequence[float] = (0.9, 0.99),
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above."""
        b1, b2 = group["betas"]
        c = kept(state, "m", G).lerp(G, 1 - b1)
        ema(state, "m", G, b2)
        _step(params, c.clamp_(-_small(c), _small(c)), state, group)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: every entry is on its own."""
        return True


class Signum(UpdateRule):
    """The sign of the momentum (Signum); without momentum, of the gradient (signSGD).

        m <- mu m + (1-mu) G
        W <- W - lr weight_decay W - lr sign(m)

    Args:
        params: parameters of any shape.
        lr: learning rate, which is also how far each entry moves in a step.
        weight_decay: decoupled weight decay.
        momentum: mu. With Nesterov's form of it this would be Lion with betas (mu mu, mu).

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/1802.04434, Algorithm 2, with decoupled weight decay as in MXNet and in
        https://github.com/kozistr/pytorch_optimizer. https://github.com/epfml/llm-optimizer-benchmark begins
        with m = W, which is not in the paper; ours begins with zero, as those two do.
    """

    table = SIGNUM

    def __init__(
        self, params: ParamsT, lr: float = 3e-4, *, weight_decay: float = 0.3, momentum: float = 0.9
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above."""
        m = ema(state, "m", G, group["momentum"])
        _step(params, m.clamp(-_small(m), _small(m)), state, group)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: every entry is on its own."""
        return True


def _small(x: Tensor) -> float:
    """Clamped to this on both sides x is its signs times it. torch.sign makes zero of NaN, this keeps it."""
    return max(torch.finfo(x.dtype).tiny, 2.0**-100)  # a power of 2, so that lr is not rounded twice


def _step(params: list[Tensor], signs: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """W <- W - lr (weight_decay W + sign), for one parameter W or those of a stack."""
    if group["weight_decay"]:
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
    torch._foreach_add_(params, parts(signs, state), alpha=-group["lr"] / _small(signs))
