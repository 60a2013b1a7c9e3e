"""What a step of each parameter costs, and whether several processes can step some of the parameters each.

The cost is measured. It is not proportional to the number of entries where a rule decomposes a matrix.
Formulas would have to be kept for every rule and every machine, and there are none for the rules of users.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from htbench.optimizers.base import UpdateRule
from htbench.optimizers.hybrid import Hybrid


def separable(optimizer: Optimizer) -> bool:
    """Whether a step of one parameter depends on nothing of the others, and skips those without gradient.

    The rules of the zoo and the classes of torch.optim but LBFGS are so. Any other class may couple its
    parameters, for example by a norm over all gradients. It counts as separable if it says so by
    `separable = True`.
    """
    if isinstance(optimizer, Hybrid):
        return all(map(separable, optimizer.parts))
    cls = type(optimizer)
    known = getattr(torch.optim, cls.__name__, None) is cls is not torch.optim.LBFGS
    return bool(getattr(cls, "separable", known))


def seconds_of_a_step(optimizer: Optimizer) -> list[float]:
    """What a step of each parameter takes here, in the order of `param_groups`. It changes nothing.

    Measured once for each group and shape, on a random gradient. A class that is no `UpdateRule` is taken for
    AdamW: like that it moves memory.
    """
    seconds: dict[tuple[int, torch.Size], float] = {}
    found: dict[Tensor, float] = {}
    gpus = {p.device for group in optimizer.param_groups for p in group["params"] if p.is_cuda}
    with torch.no_grad(), torch.random.fork_rng(gpus):
        for rule in optimizer.parts if isinstance(optimizer, Hybrid) else (optimizer,):
            for group in rule.param_groups:
                for p in group["params"]:
                    kind = id(group), p.shape
                    if kind not in seconds:
                        seconds[kind] = _seconds(_step(rule, group, p), p.device)
                    found[p] = seconds[kind]
    return [found[p] for group in optimizer.param_groups for p in group["params"]]


def _step(rule: Optimizer, group: dict[str, Any], p: Tensor) -> Callable[[], object]:
    gradient = torch.randn_like(p)
    if isinstance(rule, UpdateRule):
        return partial(rule.update, [torch.zeros_like(p)], gradient, {}, group)
    stand_in = torch.zeros_like(p)
    stand_in.grad = gradient
    return AdamW([stand_in], fused=True).step


def _seconds(step: Callable[[], object], device: torch.device) -> float:
    """Of the second call; in the first one libraries load and bases are made."""
    step()
    began = _now(device)
    step()
    return _now(device) - began


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
