"""The running mean of a model's weights over the updates of a run, evaluated beside the last weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from harness.config import AverageConfig


class Average:
    """The mean of the weights after each update. Buffers have none: BatchNorm's are taken anew, at the mean.

    ema: weights of the past fall by the factor `ema` a step; divided by their sum, so that the first weights
        count no more than others (Adam's correction of its moments).
    tail: equal weights over the last fraction `tail` of the updates (stochastic weight averaging,
        https://arxiv.org/abs/1803.05407, and LAWA, https://arxiv.org/abs/2306.03241).

    It is kept in float32 at least. Before its first update it has no memory.

    Args:
        config: one of the two.
        model: whose weights.
        total: updates of the run.
    """

    def __init__(self, config: AverageConfig, model: nn.Module, total: int) -> None:
        self.config, self.model, self.total = config, model, total
        self.mean: dict[str, Tensor] = {}

    def update(self, step: int) -> None:
        """Take in the weights after update number `step`, from 1 on."""
        share = self._share(step)
        if share > 0:
            new = {name: x.detach().to(_precise(x)) for name, x in self.model.named_parameters()}
            if share == 1:
                self.mean = {name: x.clone() for name, x in new.items()}
            else:
                torch._foreach_lerp_([self.mean[name] for name in new], list(new.values()), share)

    def _share(self, step: int) -> float:
        """Of the newest weights in the mean; 1 at the first ones."""
        if self.config.ema is not None:
            return (1 - self.config.ema) / (1 - self.config.ema**step)
        first = self.total - max(1, round((self.config.tail or 0) * self.total))
        return 1 / (step - first) if step > first else 0

    def load(self, mean: dict[str, Tensor]) -> None:
        """Go on from the `mean` of a checkpoint."""
        places = dict(self.model.named_parameters())
        known = {name: x for name, x in mean.items() if name in places}  # once buffers had a mean, too
        self.mean = {name: x.to(places[name].device, copy=True) for name, x in known.items()}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Meanwhile the model has the mean; its buffers may be changed."""
        tensors = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        last = {name: x.detach().clone() for name, x in tensors.items()}
        _copy(self.mean, tensors)
        try:
            yield
        finally:
            _copy(last, tensors)


def _precise(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


@torch.no_grad()
def _copy(values: dict[str, Tensor], into: dict[str, Tensor]) -> None:
    for name, x in values.items():
        into[name].copy_(x)
