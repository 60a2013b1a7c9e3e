"""The interface of a task for the training loop: global batches, the loss to sum, held-out metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from htbench.harness.parallel.group import ALONE, Group

Array = npt.NDArray[Any]

IGNORED = -100  # a target that is not counted (padding)
SPLITS = ("train", "val", "test")


class Transform(Protocol):
    """What happens to the samples of a batch on the device, with parameters for each of them."""

    def cut(self, start: int, stop: int) -> Transform:
        """That of the samples [start, stop)."""

    def __call__(self, batch: Batch) -> Batch:
        """The batch that the model gets; `batch` is on the device and has no transform."""


def moved(x: Tensor, device: torch.device | str) -> Tensor:
    """x on `device`. The copy to a GPU waits for its turn there, and nobody waits for the copy."""
    if torch.device(device).type != "cuda" or x.is_cuda:
        return x.to(device)
    return x.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Mix:
    """The second class (N,) of every mixed sample, and the weight (N,) of its first one."""

    targets: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Batch:
    """Inputs and targets with samples along the first dimension.

    `count` is the number of targets that are not IGNORED; in a process's part of a global batch, that of the
    whole batch. `to` applies the transform, whose `mix` is for the loss. It notes as `kept` the places of the
    counted among all targets, int64 (K,), or None if these are all.
    """

    inputs: Tensor
    targets: Tensor
    count: int
    transform: Transform | None = None
    mix: Mix | None = None
    kept: Tensor | None = None

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor, transform: Transform | None = None) -> Batch:
        """A batch that counts its targets."""
        return cls(inputs, targets, int((targets != IGNORED).sum()), transform)

    def shard(self, group: Group) -> Batch:
        """This process's part, which may be empty."""
        if group.size == 1:
            return self
        ours = group.shard(torch.arange(len(self.inputs))).tolist()
        return self._cut(ours[0], ours[-1] + 1) if ours else self._cut(0, 0)

    def split(self, micro_batch: int) -> list[Batch]:
        """Consecutive batches of at most `micro_batch` samples; none of an empty one."""
        size = len(self.inputs)
        if 0 < size <= micro_batch:
            return [self]
        return [self._cut(start, min(start + micro_batch, size)) for start in range(0, size, micro_batch)]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on `device`, transformed."""
        counted = (self.targets.flatten() != IGNORED).nonzero().flatten()  # here no GPU has to be waited for
        kept = None if len(counted) == self.targets.numel() else moved(counted, device)
        there = Batch(moved(self.inputs, device), moved(self.targets, device), self.count, kept=kept)
        return there if self.transform is None else self.transform(there)

    def pinned(self) -> Batch:
        """The same batch in memory that a GPU reads by itself."""
        return replace(self, inputs=self.inputs.pin_memory(), targets=self.targets.pin_memory())

    def _cut(self, start: int, stop: int) -> Batch:
        transform = None if self.transform is None else self.transform.cut(start, stop)
        return Batch.of(self.inputs[start:stop], self.targets[start:stop], transform)


@dataclass(frozen=True)
class Scores:
    """What a model makes of a held-out split, item by item. An item is a row of text or an image.

    Attributes:
        metrics: of all of them, as `Task.evaluate` returns them.
        sums: float64 (N,), the summed cross-entropy of each item's targets in nats.
        counts: int64 (N,), how many targets.
        clusters: int64 (N,), the document in which each item begins, or the number of the image. Items of one
            cluster are not independent.
        places: int64 (N,), the numbers of the items in the whole split.
        whole: items of the whole split, also of those that are not scored.
        correct: bool (N,), whether each image is classified right; None for text.
    """

    metrics: dict[str, float]
    sums: Array
    counts: Array
    clusters: Array
    places: Array
    whole: int
    correct: Array | None = None


class Task(Protocol):
    """One data set with one objective.

    `metric` names the entry of `evaluate` that is reported, `model_options` are overrides for `models.build`,
    and `epoch_size` is the number of training samples (sequences or images).
    """

    metric: str
    model_options: dict[str, int]
    epoch_size: int

    def batch(self, step: int, group: Group = ALONE) -> Batch:
        """The global batch of 0-based `step` on the CPU: a pure function of (data_seed, step).

        Each process of `group` gets its part of the samples, with the count of the whole batch.
        """

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits (N, V) of the N entries of `batch.targets`, in their order and in float32 at least."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Sum (not mean) of the counted targets' cross-entropies in nats, so that parts of a batch add up."""

    def evaluate(
        self, model: nn.Module, split: str, micro_batch: int, device: torch.device, group: Group = ALONE
    ) -> dict[str, float]:
        """Metrics of `split` ("val" or "test"); see `mean_losses` for `loss` and `loss_biased`.

        `samples` is the number of targets: tables derive from it the sampling error of an accuracy.
        Each process of `group` evaluates its part of every held-out batch; all return the same metrics.
        A task that also has `score`, with the same arguments, returns `Scores` from it: the record then keeps
        the test split item by item.
        """


def in_float32(logits: Tensor) -> Tensor:
    """The logits in float32, or in the precision they have if that is higher."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed cross-entropy in nats of logits (N, V) and the counted ones of N targets of any shape."""
    return F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED, reduction="sum")


def cross_entropies(logits: Tensor, targets: Tensor) -> Tensor:
    """Each target's cross-entropy in nats, (N,), of logits (N, V); 0 where it is not counted."""
    return F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the model has its former mode."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def each_item(
    items: int,
    batch_size: int,
    micro_batch: int,
    group: Group,
    measure: Callable[[Tensor], tuple[Tensor, Tensor]],
) -> Array:
    """The two numbers that `measure(numbers of items)` finds for each of so many items, float64 (2, items).

    Every batch is divided among the processes of `group` as one of training is; all return the same.
    """
    found = np.zeros((2, items))
    for batch in torch.split(torch.arange(items), batch_size):
        for part in torch.split(group.shard(batch), micro_batch):
            if len(part):
                found[:, part.numpy()] = torch.stack([one.double().cpu() for one in measure(part)])
    return np.reshape(group.all_reduce_sum(found.ravel().tolist()), found.shape)  # those of others are zero


def mean_losses(sums: Array, counts: Array, batch_size: int) -> dict[str, float]:
    """Two means from the summed losses (N,) and the counts (N,) of the items of a held-out split.

    `loss` is the mean over targets. `loss_biased` is what the paper's release prints: the sum of the batch
    means over the number of batches plus one. It depends on the batch size: held-out batches have the run's.
    """
    starts = np.arange(0, len(sums), batch_size)
    means = np.add.reduceat(sums, starts) / np.add.reduceat(counts, starts)
    return {
        "loss": float(sums.sum() / counts.sum()),
        "loss_biased": float(means.sum() / (len(means) + 1)),
    }
