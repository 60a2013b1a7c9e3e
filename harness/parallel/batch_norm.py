"""Synchronised BatchNorm: statistics over the parts of all processes, as one process has them of the whole.

torch's own SyncBatchNorm refuses tensors on the CPU. This one works wherever the processes of a run do.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo
from torch.nn.modules.batchnorm import _BatchNorm

from htbench.harness.parallel.group import Group, exchanging


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of any number of dimensions, with the parameters and buffers of the module that it was.

    In training all processes of the run call it together, each with samples. The mean and the variance are
    those of all of them; only these few numbers are exchanged, in float64.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x (B, C, ...), in its own dtype."""
        if not self.training:
            return super().forward(x)
        precise = x.to(torch.promote_types(x.dtype, torch.float32))
        mean, var, count = _statistics(precise)
        if self.track_running_stats:
            self._follow(mean, var * count / (count - 1))
        scale = torch.rsqrt(var + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale
        if self.bias is not None:
            shift = shift + self.bias
        scale, shift = (each.to(precise.dtype).view(-1, *[1] * (x.ndim - 2)) for each in (scale, shift))
        return torch.addcmul(shift, precise, scale).to(x.dtype)

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor) -> None:
        """Update the running statistics; `var` is the unbiased one."""
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
        for running, new in ((self.running_mean, mean), (self.running_var, var)):
            assert running is not None
            running.mul_(1 - share).add_(new.to(running.dtype), alpha=share)

    def _check_input_dim(self, input: Tensor) -> None:
        pass  # the module that it was took the same input


def synchronise(model: nn.Module, group: Group) -> None:
    """Turn every BatchNorm of a model into a `SyncBatchNorm`; nothing happens to a process alone.

    Parameters, buffers and their names stay.
    """
    for module in model.modules() if group.size > 1 else ():
        if isinstance(module, _BatchNorm):
            module.__class__ = SyncBatchNorm


def _statistics(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and biased variance (C,) of all processes' x, and its number of entries per channel; float64.

    Each process's variance is taken around its own mean, since E[x^2] - E[x]^2 in float32 cancels. In float64
    the same difference is harmless.
    """
    dims = [0, *range(2, x.ndim)]
    var, mean = torch.var_mean(x, dims, correction=0)
    var, mean = var.double(), mean.double()
    ours = mean.new_full((1,), x.numel() / x.shape[1])
    summed = _sum_over_processes(torch.cat([mean * ours, (var + mean.square()) * ours, ours]))
    total, squares, count = summed.split([len(mean), len(mean), 1])  # type: ignore[no-untyped-call]
    mean = total / count
    return mean, squares / count - mean.square(), count


class _Sum(torch.autograd.Function):
    """The sum over all processes. Each of them has its own loss; the gradient is that of their sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return _reduced(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _reduced(gradients[0])


def _reduced(values: Tensor) -> Tensor:
    values = values.clone(memory_format=torch.contiguous_format)
    with exchanging() as distributed:
        distributed.all_reduce(values)
    return values


@_disable_dynamo  # torch.compiler.disable, but imports torch.compile only when it is called
def _sum_over_processes(values: Tensor) -> Tensor:
    summed: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
    return summed
