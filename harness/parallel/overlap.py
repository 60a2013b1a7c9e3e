"""The sum of the gradients over all processes while the backward pass goes on, for GPUs.

A hook on each parameter says when its gradient is complete. A bucket whose gradients are all complete is
sent, after the buckets before it, so that all processes send in the same order. Buckets begin with the last
parameters, whose gradients come first, and depend on the model only: a resumed run adds in the same order.

The sum goes to every process, though with an owner-stepped optimizer its owner alone would do (a
reduce-scatter moves half as much): the norm that `grad_clip` needs would then take another exchange.
A compiled model makes all gradients at the end of its backward pass, so that nothing overlaps.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from htbench.harness.parallel.group import Group, buckets, exchanging, flattened, parts_like


class Bucket:
    """Parameters whose gradients are sent together.

    Attributes:
        params: of the model.
        missing: how many gradients of the current backward pass are to come.
        had: which of their gradients this process had when it was sent.
    """

    def __init__(self, params: list[Tensor]) -> None:
        self.params = params
        self.missing = 0
        self.had: list[bool] = []
        self._flat: Tensor | None = None
        self._work: Any = None

    def send(self) -> None:
        """Begin the sum. A gradient that this process lacks is zero; each is dropped to save its memory."""
        self.had = [p.grad is not None for p in self.params]
        self._flat = flattened(torch.zeros_like(p) if p.grad is None else p.grad for p in self.params)
        with exchanging() as distributed:
            self._work = distributed.all_reduce(self._flat, async_op=True)
        for p in self.params:
            p.grad = None

    def receive(self, used: list[bool]) -> None:
        """Wait for the sum (on a GPU the stream waits), and give it to the parameters that are `used`."""
        assert self._flat is not None
        with exchanging():
            self._work.wait()
        for p, part, wanted in zip(self.params, parts_like(self._flat, self.params), used, strict=True):
            if wanted:
                p.grad = part.to(p.dtype)
        self._flat = self._work = None


class GradientSum:
    """Sums the gradients of a model over all processes, behind the backward pass or after it.

    Args:
        model: its trainable parameters are those of now.
        group: the processes of the run.
        overlap: whether to sum behind the backward pass.
    """

    def __init__(self, model: nn.Module, group: Group, *, overlap: bool) -> None:
        self.model, self.group = model, group
        self._expecting = False
        self._sent = 0
        self.buckets: list[Bucket] = []
        if overlap and group.size > 1:
            params = [p for p in model.parameters() if p.requires_grad]
            self.buckets = [Bucket(ours) for ours in buckets(reversed(params))]
        for bucket in self.buckets:
            for p in bucket.params:
                p.register_post_accumulate_grad_hook(partial(self._arrived, bucket))  # type: ignore[no-untyped-call]

    def expect(self) -> None:
        """Say that the next backward pass is the last one before `finish`, which completes the gradients."""
        self._expecting = True
        for bucket in self.buckets:
            bucket.missing = len(bucket.params)

    def finish(self) -> None:
        """Replace every gradient by its sum over all processes.

        A process may lack gradients that others have, or all of them if its part of the batch is empty.
        """
        self._expecting = False
        if not self.buckets:
            return self.group.sum_gradients(self.model)
        for bucket in self.buckets[self._sent :]:
            bucket.send()
        self._sent = 0
        used = iter(self.group.any([had for bucket in self.buckets for had in bucket.had]))
        for bucket in self.buckets:
            bucket.receive([next(used) for _ in bucket.params])

    def _arrived(self, bucket: Bucket, p: Tensor) -> None:
        """A gradient of a backward pass is complete."""
        if not self._expecting:
            return
        bucket.missing -= 1
        if bucket.missing < 0:
            raise RuntimeError("a backward pass gave one gradient twice, as reentrant checkpoints do")
        while self._sent < len(self.buckets) and not self.buckets[self._sent].missing:
            self.buckets[self._sent].send()
            self._sent += 1
