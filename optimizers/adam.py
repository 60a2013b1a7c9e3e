"""The step of Adam, by the kernel that makes it in one pass over memory where there is one."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from htbench.optimizers.base import ema, kept, second_moment
from htbench.optimizers.stacks import parts


def adam_direction(
    G: Tensor, state: dict[str, Any], betas: Sequence[float], eps: float, *, raw_eps: bool = False
) -> Tensor:
    """The step of Adam for gradient G, from the moments `m` and `v` and the count `step` in `state`.

        m <- b1 m + (1-b1) G,   v <- b2 v + (1-b2) G.G
        m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps)

    Args:
        G: the gradient.
        state: of the parameter.
        betas: b1, b2.
        eps: keeps the division finite.
        raw_eps: add eps to sqrt(v) before the bias correction, as the releases of SOAP and GaLore do; early
            steps are then smaller where the gradient is as small as eps.

    Source: https://arxiv.org/abs/1412.6980, Algorithm 1.
    """
    if raw_eps:
        eps /= math.sqrt(1 - betas[1] ** (state.get("step", 0) + 1))
    u = torch.zeros_like(G)
    adam_update(parts(u, state), G, state, betas, eps, lr=-1.0)
    return u


def adam_update(
    params: list[Tensor],
    G: Tensor,
    state: dict[str, Any],
    betas: Sequence[float],
    eps: float,
    *,
    lr: float,
    weight_decay: float = 0.0,
) -> None:
    """W <- W - lr (weight_decay W + step of Adam for G), with the state of `adam_direction`.

    Args:
        params: one parameter W, or those of a stack.
        G, state, betas, eps: as there.
        lr, weight_decay: as above.
    """
    b1, b2 = betas
    t = state["step"] = state.get("step", 0) + 1
    m, v = kept(state, "m", G), kept(state, "v", G)
    if has_kernel(*params, G, m, v):
        # one tensor per parameter, as without stacks: on a CPU the last entries of a tensor round differently
        grads, ms, vs = (parts(x, state) for x in (G, m, v))
        steps = [torch.full((), float(t), device=G.device)] * len(params)
        torch._fused_adamw_(
            params,
            grads,
            ms,
            vs,
            [],
            steps,
            lr=lr,
            beta1=b1,
            beta2=b2,
            weight_decay=weight_decay,
            eps=eps,
            amsgrad=False,
            maximize=False,
        )
        return
    m, v, root = ema(state, "m", G, b1), second_moment(state, "v", G, b2), math.sqrt(1 - b2**t)
    torch._foreach_mul_(params, 1 - lr * weight_decay)
    denominators = parts(v.sqrt().add_(eps * root), state)
    torch._foreach_addcdiv_(params, parts(m, state), denominators, value=-lr * root / (1 - b1**t))


def has_kernel(*tensors: Tensor) -> bool:
    """Whether PyTorch's kernel can take these tensors. It reads memory in order and never checks strides."""
    first = tensors[0]
    return first.device.type in ("cpu", "cuda") and all(
        x.is_contiguous() and x.is_floating_point() and x.dtype == first.dtype for x in tensors
    )
