"""Optimizers that treat all entries of a parameter alike and are not in torch: Cautious, MARS, Sophia."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from htbench.optimizers.adam import adam_direction, adam_update
from htbench.optimizers.base import UpdateRule, ema, kept, second_moment
from htbench.optimizers.stacks import norm, own_dims, parts
from htbench.optimizers.zoo.elementwise import CAUTIOUS, SOPHIA
from htbench.optimizers.zoo.elementwise import MARS as MARS_TABLE


class Cautious(UpdateRule):
    """AdamW that leaves out every entry of its step which goes against the gradient (C-AdamW).

        m <- b1 m + (1-b1) G,   v <- b2 v + (1-b2) G.G
        u <- m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps)
        s <- [u.G > 0]
        W <- W - lr weight_decay W - lr u.s / max(mean(s), mask_floor)

    Args:
        params: parameters of any shape; mean(s) is taken over one of them.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        betas: b1, b2.
        eps: keeps the division finite.
        mask_floor: lower bound of mean(s): the kept entries grow by no more than 1 / mask_floor.
        raw_eps: add eps to sqrt(v) before the bias correction, see `adam_direction`.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2411.16085; HTMuon paper, Algorithm "Cautious";
        https://github.com/kyleliang919/C-Optim. The block clips the gradient (with max where min is meant)
        and has no floor; the released code does not clip and floors mean(s) by 1e-3, and so do we. Its two
        paths differ in where eps stands: `foreach=True` is its default and ours, `foreach=False` is
        `raw_eps=True`.
    """

    table = CAUTIOUS

    def __init__(
        self,
        params: ParamsT,
        lr: float = 4e-3,
        *,
        weight_decay: float = 0.0,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-6,
        mask_floor: float = 1e-3,
        raw_eps: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above."""
        u = adam_direction(G, state, group["betas"], group["eps"], raw_eps=group["raw_eps"])
        # Zeros and ones in the dtype of u: booleans take several times as long on a CPU.
        s = torch.mul(u, G).gt_(0)
        mean = s.mean(own_dims(s, state), keepdim=True).clamp_(min=group["mask_floor"])
        if group["weight_decay"]:
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        kept_entries = parts(u.mul_(s), state)
        torch._foreach_addcdiv_(params, kept_entries, parts(mean, state), value=-group["lr"])

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: mean(s) is that of each parameter."""
        return True


class MARS(UpdateRule):
    """AdamW on a gradient that is corrected by its change since the step before (MARS-AdamW, approximate).

        c <- G + gamma b1/(1-b1) (G - last),   last <- G          last = 0 at first
        c <- c min(1, 1 / ||c||)                                  with clip
        m <- b1 m + (1-b1) c,   v <- b2 v + (1-b2) c.c
        W <- W - lr weight_decay W - lr m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps)

    Args:
        params: parameters of any shape; ||c|| is the norm of all entries of one of them.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        betas: b1, b2.
        gamma: weight of the correction; 0 is AdamW on clipped gradients.
        eps: keeps the division finite.
        clip: as above.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2411.10438; HTMuon paper, Algorithm "MARS";
        https://github.com/AGI-Arena/MARS. The block clips with max where min is meant. Exact MARS takes the
        last gradient anew on the batch of this step, at twice the cost; block, released code and we keep that
        of the last step. In the released runs of the HTMuon paper matrices get no weight decay, since it is
        not passed; the paper's table says 0.1, and so do we. The released code keeps `last` by reference and
        so loses it where gradients are zeroed in place; ours is a copy.
    """

    table = MARS_TABLE

    def __init__(
        self,
        params: ParamsT,
        lr: float = 3e-3,
        *,
        weight_decay: float = 0.1,
        betas: Sequence[float] = (0.9, 0.95),
        gamma: float = 0.025,
        eps: float = 1e-8,
        clip: bool = True,
    ) -> None:
        super().__init__(params, locals())

    def update(self, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Make the step of the block above."""
        (b1, _), last = group["betas"], kept(state, "last", G)
        c = last.lerp(G, 1 + group["gamma"] * b1 / (1 - b1))  # beyond G, in one pass over memory
        last.copy_(G)
        if group["clip"]:
            c.div_(norm(c, state).clamp_(min=1))
        rates = {"lr": group["lr"], "weight_decay": group["weight_decay"]}
        adam_update(params, c, state, group["betas"], group["eps"], **rates)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: ||c|| is that of each parameter."""
        return True


class Sophia(UpdateRule):
    """Momentum divided by an estimate of the curvature and clipped entry by entry (Sophia-G).

        h <- b2 h + (1-b2) B g.g                     once in k steps, see `observe_curvature`; h = 0 at first
        m <- b1 m + (1-b1) G
        W <- W - lr weight_decay W - lr sign(m) min(1, |m| / (rho h + eps))

    g is the gradient of the mean loss of B predictions with labels sampled from the model. B g.g is then an
    unbiased estimate of the diagonal of the Gauss-Newton matrix (Gauss-Newton-Bartlett). Until the first
    estimate, and always with `sign_momentum`, a step is lr sign(m).

    The loop makes the estimates: before update `step` (0-based), if `wants_curvature(step)`, it does a
    backward pass on sampled labels and calls `observe_curvature(B)`. A loop that never does is warned once.

    Args:
        params: parameters of any shape. Groups share the passes: when one group is due, all get an estimate.
        lr: learning rate, which is also the most that an entry moves in a step.
        weight_decay: decoupled weight decay.
        betas: b1, b2.
        rho: clips fewer entries when raised (gamma in the paper).
        curvature_interval: k.
        curvature_at_start: estimate before updates 1, k+1, ... (the block) instead of k+1, 2k+1, ... (the
            released code, whose first k updates are therefore sign steps).
        sign_momentum: never estimate: sign momentum with weight decay (Signum). The HTMuon release does so
            unknowingly, since its loop never calls the estimate; the paper's rows "Sophia" are this.
        eps: keeps the division finite.

    Raises:
        ValueError: a hyperparameter is out of its range.

    Source: https://arxiv.org/abs/2305.14342; HTMuon paper, Algorithm "Sophia";
        https://github.com/Liuhong99/Sophia. The block divides by max(gamma h, eps), the released code and
        ours by rho h + eps. The released code multiplies by B in the step, ours in the estimate: the same
        unless B changes.
    """

    table = SOPHIA
    steps_since_estimate: int | None = 0  # of this object, not saved; None: no warning (any more)

    def __init__(
        self,
        params: ParamsT,
        lr: float = 4e-4,
        *,
        weight_decay: float = 0.1,
        betas: Sequence[float] = (0.965, 0.99),
        rho: float = 0.05,
        curvature_interval: int = 10,
        curvature_at_start: bool = False,
        sign_momentum: bool = False,
        eps: float = 1e-15,
    ) -> None:
        super().__init__(params, locals())
        self.register_step_post_hook(_warn_without_curvature)

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Return sign(m) min(1, |m| / (rho h + eps)) of the block above."""
        m = ema(state, "m", G, group["betas"][0])
        if "h" not in state:
            return m.div(group["eps"]).clamp_(-1, 1)  # not m.sign(), which makes zero of NaN
        h: Tensor = state["h"]
        # one pass over memory, where h.mul(rho).add_(eps) makes two
        denominator = torch.add(torch.tensor(group["eps"], dtype=h.dtype), h, alpha=group["rho"])
        return torch.div(m, denominator, out=denominator).clamp_(-1, 1)

    def stackable(self, group: dict[str, Any]) -> bool:
        """Yes: every entry is on its own."""
        return True

    def wants_curvature(self, step: int) -> bool:
        """Whether a group is due for an estimate before update `step` (0-based)."""
        return any(
            step % group["curvature_interval"] == 0
            and (step > 0 or group["curvature_at_start"])
            and not group["sign_momentum"]
            for group in self.param_groups
        )

    @torch.no_grad()
    def observe_curvature(self, batch_size: int) -> None:
        """Update h of every parameter that has a gradient; see `UpdateRule.observe_curvature`."""
        self.steps_since_estimate = self.steps_since_estimate and 0
        for group in self.param_groups:
            if not group["sign_momentum"]:
                for W in group["params"]:
                    if W.grad is not None:
                        g = W.grad * math.sqrt(batch_size)
                        second_moment(self.state[W], "h", g, group["betas"][1])


def _warn_without_curvature(sophia: Sophia, *step_arguments: object) -> None:
    """After a step: say once that more steps than `curvature_interval` were made without an estimate."""
    intervals = [group["curvature_interval"] for group in sophia.param_groups if not group["sign_momentum"]]
    if sophia.steps_since_estimate is None or not intervals:
        return
    sophia.steps_since_estimate += 1
    if sophia.steps_since_estimate > min(intervals):
        warnings.warn(
            f"Sophia made {sophia.steps_since_estimate} steps without a new curvature estimate (before the "
            "first one it is sign momentum): call observe_curvature before each step for which "
            "wants_curvature is true, or give sign_momentum=True",
            stacklevel=3,
        )
        sophia.steps_since_estimate = None
