"""The curvature pass that Sophia asks for: a second backward pass, on targets drawn from the model itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from htbench.harness.data.task import IGNORED, Batch, Task, cross_entropy, moved
from htbench.harness.parallel.group import ALONE, Group


def backward(
    task: Task,
    model: nn.Module,
    batch: Batch,
    *,
    seed: int,
    step: int,
    micro_batch: int,
    device: torch.device,
    autocast: torch.autocast,
    group: Group = ALONE,
) -> None:
    """Add the gradient of the mean loss on sampled targets to the parameters'; change nothing else.

    The targets are a pure function of (seed, step), independent of resumption, micro-batches and processes.

    Args:
        task: makes logits of `model` and `batch`.
        model: in training mode. Neither its batch statistics nor the global random state change.
        batch: the inputs of the next update, or this process's equal part of them. Of the targets only the
            positions of IGNORED matter.
        seed, step: of the run, and of the next update (0-based).
        micro_batch: at most this many samples at once.
        device: of the model.
        autocast: entered for every forward pass.
        group: the processes among which the batch is divided.
    """
    ours, *rest = batch.targets.shape
    uniforms = group.shard(uniform(torch.Size([ours * group.size, *rest]), seed, step))
    with _aside(model, device):
        for micro, u in zip(batch.split(micro_batch), torch.split(uniforms, micro_batch), strict=True):
            micro = micro.to(device)
            with autocast:
                logits = task.logits(model, micro)
                loss = cross_entropy(logits, sample(logits, micro.targets, moved(u, device)))
            torch.autograd.backward(loss / batch.count)


def uniform(shape: torch.Size, seed: int, step: int) -> Tensor:
    """Float32 numbers in [0, 1) from Philox words, as `data.order` draws them.

    A `torch.Generator` on the CPU uses 32 bits of its seed, too few for two numbers.
    """
    words = np.random.Philox(key=np.array([seed, step], dtype=np.uint64)).random_raw(shape.numel())
    return torch.from_numpy((words >> np.uint64(40)).astype(np.float32)).mul_(2**-24).view(shape)


@torch.no_grad()
def sample(logits: Tensor, targets: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a class for every target by inverting the distribution function of softmax(logits).

    Args:
        logits: (N, V).
        targets: N classes in any shape; where they are IGNORED, so is the result.
        uniforms: a number in [0, 1) for each of them, in the same shape.
    """
    summed = logits.softmax(dim=-1).cumsum_(dim=-1)
    # The last sum is not quite 1. A float32 below 1, times it, is rounded to less than it, so that the first
    # sum beyond exists and belongs to a class of positive probability.
    drawn = torch.searchsorted(summed, uniforms.reshape(-1, 1) * summed[:, -1:], right=True)
    drawn.clamp_(max=logits.shape[-1] - 1)  # a diverged model gives NaN, and the search the index V
    return drawn.view(targets.shape).masked_fill_(targets == IGNORED, IGNORED)


@contextmanager
def _aside(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Forward passes in training mode that touch neither batch statistics nor the global random state."""
    tracking = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    for norm in tracking:
        norm.track_running_stats = False
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        for norm in tracking:
            norm.track_running_stats = True
