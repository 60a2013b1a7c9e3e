"""What a step can be told beside the hyperparameters of its rule: the kind of decay.

Nothing of it runs while a group says none.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from htbench.optimizers.stacks import Stack

Update: TypeAlias = "Callable[[list[Tensor], Tensor, dict[str, Any], dict[str, Any]], None]"


def shaped(
    update: Update, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]
) -> None:
    """Make the step of a rule in the way that its group says, in place.

        U <- the rule's step for G, without its decay                  for G + weight_decay W if coupled
        W <- W - lr weight_decay W - lr U                              decay="decoupled"
             W - lr/lr_0 weight_decay W - lr U                         decay="independent", lr_0 as below
             W - lr weight_decay W.[W.U >= 0] - lr U                   decay="cautious"
             W - lr U                                                  decay="coupled"

    lr_0 is the rate that the group was built with (its `peak_lr`), or the `max_lr` of torch's OneCycleLR.

    What the rule does is seen by the move of a W of zeros, so that any rule will do that is
    `UpdateRule.shaped`.

    Args:
        update, params, G, state, group: as `UpdateRule.update` and its arguments.

    Source: independent: https://arxiv.org/abs/1711.05101, Algorithm 2: the schedule multiplies the decay
        and the rate does not. Cautious: https://arxiv.org/abs/2510.12402.
    """
    lr, decay, kind = group["lr"], group["weight_decay"], group.get("decay", "decoupled")
    if kind == "coupled" and decay:
        G = G.add(torch.stack(params) if isinstance(state, Stack) else params[0], alpha=decay)
    moves = [torch.zeros_like(W) for W in params]
    update(moves, G, state, {**group, "weight_decay": 0.0})
    if kind == "cautious":
        for W, move in zip(params, moves, strict=True):
            W.sub_(W * (W * move <= 0), alpha=lr * decay)
    else:
        rates = {"decoupled": lr, "independent": _share_of_peak(group), "coupled": 0}
        torch._foreach_mul_(params, 1 - rates[kind] * decay)
    torch._foreach_add_(params, moves)


def _share_of_peak(group: dict[str, Any]) -> float:
    """What a schedule, or a hand, multiplies the rate of a group with; `initial_lr` may be any rate."""
    peaks = (group.get(key) for key in ("max_lr", "peak_lr", "initial_lr", "lr"))
    share: float = group["lr"] / next(filter(None, peaks), 1.0)
    return share
