"""What a step can be told beside the hyperparameters of its rule: the kind of decay, a norm for W, a length.

Nothing of it runs while a group has none of these words.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from htbench.optimizers.stacks import Stack

Update: TypeAlias = "Callable[[list[Tensor], Tensor, dict[str, Any], dict[str, Any]], None]"

_TINY = 1e-30  # instead of the length of a step of zeros


def shaped(
    update: Update, params: list[Tensor], G: Tensor, state: dict[str, Any], group: dict[str, Any]
) -> None:
    """Make the step of a rule in the way that its group says, in place.

        U <- the rule's step for G, without its decay                  for G + weight_decay W if coupled
        U <- U min(1, clip_rms / rms(U))                               with clip_rms
        W <- W - lr weight_decay W - lr U                              decay="decoupled"
             W - lr/lr_0 weight_decay W - lr U                         decay="independent", lr_0 the peak
             W - lr weight_decay W.[W.U >= 0] - lr U                   decay="cautious"
             W - lr U                                                  decay="coupled"
             ||W|| (W - V) / ||W - V||,  V = lr ||W|| U / ||U||        hyperball, of matrices; no decay

    What the rule does is seen by the move of a W of zeros, so that any rule will do that is
    `UpdateRule.shaped`.

    Args:
        update, params, G, state, group: as `UpdateRule.update` and its arguments.

    Source: independent: https://arxiv.org/abs/1711.05101, Algorithm 2: the schedule multiplies the decay
        and the rate does not. Cautious: https://arxiv.org/abs/2510.12402. Hyperball:
        https://github.com/KellerJordan/modded-nanogpt/pull/267, `scale_invariant_update_`. clip_rms:
        https://arxiv.org/abs/1804.04235, update clipping.
    """
    lr, decay, kind = group["lr"], group["weight_decay"], group.get("decay", "decoupled")
    if kind == "coupled" and decay:
        G = G.add(torch.stack(params) if isinstance(state, Stack) else params[0], alpha=decay)
    moves = [torch.zeros_like(W) for W in params]
    update(moves, G, state, {**group, "weight_decay": 0.0})
    if group.get("clip_rms") is not None:
        longest = lr * group["clip_rms"] * math.sqrt(moves[0].numel())
        for move, length in zip(moves, torch._foreach_norm(moves), strict=True):
            move.mul_((longest / length.clamp(min=_TINY)).clamp_(max=1))
    if group.get("hyperball") and params[0].ndim >= 2:
        _along_sphere(params, moves, lr)
        return
    if kind == "cautious":
        for W, move in zip(params, moves, strict=True):
            W.sub_(W * (W * move <= 0), alpha=lr * decay)
    else:
        rates = {"decoupled": lr, "independent": lr / group.get("initial_lr", lr), "coupled": 0}
        torch._foreach_mul_(params, 1 - rates[kind] * decay)
    torch._foreach_add_(params, moves)


def _along_sphere(params: list[Tensor], moves: list[Tensor], lr: float) -> None:
    """Go by lr ||W|| along each move, and back to the norm that W had. A W of zeros stays."""
    radii, lengths = torch._foreach_norm(params), torch._foreach_norm(moves)
    for W, move, radius, length in zip(params, moves, radii, lengths, strict=True):
        W.add_(move.mul_(lr * radius / length.clamp(min=_TINY)))
        W.mul_(radius / torch.linalg.vector_norm(W).clamp(min=_TINY))
