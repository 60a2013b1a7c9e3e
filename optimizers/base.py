"""The one loop over parameters that all our optimizers share, and helpers to write their bodies with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from optimizers.param import Param, resolve_value


class UpdateRule(torch.optim.Optimizer, ABC):
    """W <- W - lr (weight_decay W + direction), for each parameter W that has a gradient.

    A subclass is its `direction` and a constructor; `step` is never overridden.

    Args:
        params: parameters, or group dicts, as for any `torch.optim.Optimizer`.
        defaults: every hyperparameter, including `lr` and `weight_decay` (decoupled); plain values, so that a
            state_dict loads with `weights_only=True`.
        table: type and range of each of them.

    Raises:
        ValueError: a hyperparameter is out of its range.
    """

    def __init__(self, params: ParamsT, defaults: dict[str, Any], table: Mapping[str, Param]) -> None:
        super().__init__(params, {name: resolve_value(table[name], name, x) for name, x in defaults.items()})

    @abstractmethod
    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """The body of the paper's Algorithm block: what lr multiplies, without the weight decay.

        Args:
            G: the gradient, in the parameter's own shape and dtype; it must not be modified. A rule for
                matrices starts with `matrix_view(G)`; that is the rule's business because some treat vectors
                and kernels their own way.
            state: what this parameter carries from step to step; empty at first.
            group: the hyperparameters.

        Returns:
            as many entries as G, in the shape of G or of its matrix view.
        """

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; return the loss of the closure, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            lr, shrink = group["lr"], 1 - group["lr"] * group["weight_decay"]
            for W in group["params"]:
                if W.grad is not None:
                    D = self.direction(W.grad, self.state[W], group)
                    W.mul_(shrink).add_(D.reshape(W.shape), alpha=-lr)
        return loss

    def wants_curvature(self, step: int) -> bool:
        """Whether to call `observe_curvature` after update `step` (0-based). Only Sophia will want it."""
        return False

    def observe_curvature(self, batch_size: int) -> None:
        """Read a curvature estimate from `.grad`, after a backward pass on labels sampled from the model.

        Args:
            batch_size: number of predictions (tokens, images) that this loss averages.
        """


def evaluate(closure: Callable[[], float] | None) -> float | None:
    """Run the closure of `Optimizer.step`, if there is one; it computes gradients."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def matrix_view(x: Tensor) -> Tensor:
    """See a kernel (out, in, height, width) as the matrix (out, in height width); leave the rest as it is."""
    return x.flatten(1) if x.ndim > 2 else x


def ema(state: dict[str, Any], key: str, value: Tensor, beta: float) -> Tensor:
    """Update state[key] <- beta state[key] + (1 - beta) value, from zero at first, and return it."""
    if key not in state:
        state[key] = torch.zeros_like(value)
    mean: Tensor = state[key]
    return mean.lerp_(value, 1 - beta)
