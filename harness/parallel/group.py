"""The processes of one run, and what they settle together. Torch-free until there are several.

Every process takes its part of every batch; gradients are summed, so all make the same update and hold the
same state. The first one leads: it alone owns the run and writes. What only one of them can know (a signal,
the time, what the store or a study says) they settle here, so that all go the same way at the same step.

Gradients are summed after the last backward pass, in buckets that depend on the model only. torch's
DistributedDataParallel hides that time behind the backward pass, but it divides by the number of processes,
has to be kept off micro-batches and Sophia's second backward pass, and regroups its buckets after the first
step, so that from three processes on a resumed run would add in another order than an undisturbed one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from harness.errors import PeerLostError, RunFailedError, StoppedError

if TYPE_CHECKING:
    from torch import Tensor, nn

T = TypeVar("T")

# A process that dies is noticed at once, by its closed connections. This ends what hangs without dying, and
# must leave the leader the time to write a checkpoint.
PATIENCE = timedelta(minutes=10)
BUCKET = 2**23  # numbers that are sent together


@dataclass(frozen=True)
class Group:
    """The processes of a run. Alone, every method returns what it was given at once.

    If another process has left, for whatever reason, methods raise PeerLostError.

    Attributes:
        rank: which of them this process is; 0 leads.
        size: how many there are.
        local_rank: which of those on this node; it picks the GPU.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this process owns the run."""
        return self.rank == 0

    def shard(self, samples: Tensor) -> Tensor:
        """This process's part of samples along the first dimension; the first ones get what is left over."""
        return samples if self.size == 1 else samples.tensor_split(self.size)[self.rank]

    def all_reduce_sum(self, values: Sequence[float]) -> list[float]:
        """The sum over all processes of each value, the same bits everywhere."""
        return self._reduced(values, "SUM")

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """Whether any process says so, for each flag."""
        return [bool(value) for value in self._reduced(flags, "MAX")]

    def same(self, number: int) -> bool:
        """Whether all processes give the same number."""
        greatest, least = self._reduced([number, -number], "MAX")
        return greatest == -least

    def broadcast(self, value: T) -> T:
        """The leader's value; what others give does not matter. Nobody goes on before the leader is here."""
        if self.size == 1:
            return value
        import torch
        from torch import distributed

        box = [value]
        with _noticing_losses():
            distributed.broadcast_object_list(box, device=torch.device("cpu"))
        return box[0]

    def all_gather(self, value: T) -> list[T]:
        """The values of all processes."""
        if self.size == 1:
            return [value]
        from torch import distributed

        values = [value] * self.size
        with _noticing_losses():
            distributed.all_gather_object(values, value)
        return values

    def sum_gradients(self, model: nn.Module) -> None:
        """Put the sum over all processes in the place of every gradient."""
        if self.size == 1:
            return
        import torch
        from torch import distributed

        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            with _noticing_losses():
                distributed.all_reduce(flat)
            parts = torch.split(flat, [gradient.numel() for gradient in bucket])
            for gradient, part in zip(bucket, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Put the leader's batch statistics in the place of ours: a run's are those of its leader's parts."""
        if self.size > 1:
            from torch import distributed

            for buffer in model.buffers():
                with _noticing_losses():
                    distributed.broadcast(buffer, src=0)

    def _reduced(self, values: Sequence[float], how: str) -> list[float]:
        if self.size == 1:
            return list(values)
        import torch
        from torch import distributed

        tensor = torch.tensor(values, dtype=torch.float64)
        with _noticing_losses():
            distributed.all_reduce(tensor, op=getattr(distributed.ReduceOp, how))
        reduced: list[float] = tensor.tolist()
        return reduced


ALONE = Group()


def started() -> bool:
    """Whether somebody, such as torchrun, has started this process as one of a run's."""
    return "WORLD_SIZE" in os.environ


def is_main() -> bool:
    """Whether this process was started as the first of them."""
    return int(os.environ.get("RANK", 0)) == 0


@contextmanager
def joined() -> Iterator[Group]:
    """The processes that were started together, once all are there, by the variables that torchrun sets.

    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; without them this process is alone.

    Raises:
        RunFailedError: the others did not come.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield ALONE
        return
    import torch
    from torch import distributed

    # What is settled goes between CPUs even where gradients go between GPUs: nobody waits for a GPU then, and
    # closed connections are noticed at once.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        distributed.init_process_group(backend, timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise RunFailedError(f"The processes of this run did not find each other: {error}.") from error
    rank = distributed.get_rank()
    try:
        yield Group(rank, distributed.get_world_size(), int(os.environ.get("LOCAL_RANK", rank)))
    except StoppedError:  # all have agreed on it: they leave as at the end
        distributed.destroy_process_group()
        raise
    distributed.destroy_process_group()  # after an error the end of the process does it, which cannot hang


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        if bucket and size + gradient.numel() > BUCKET:
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.numel()
    yield bucket


@contextmanager
def _noticing_losses() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        from torch import distributed

        # gloo raises a plain one. NCCL's own may also tell of trouble with our GPU, others of memory.
        lost = type(error) is RuntimeError or "ncclRemoteError" in str(error)
        if not lost and not isinstance(error, distributed.DistNetworkError | distributed.DistStoreError):
            raise
        raise PeerLostError(f"another process of this run is gone: {error}") from error
