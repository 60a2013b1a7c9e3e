"""The processes of one run and their collective operations. Torch-free for a single process.

Every process computes its part of every batch. Gradients are summed, so all make the same update and have the
same state. The main process, rank 0, owns the run and writes. A fact that only one process knows (a signal,
the time, an answer of the store or a study) is exchanged here, so that all act alike at the same step.

Gradients are summed after the last backward pass, in buckets that depend on the model only; on GPUs behind it
(`harness/parallel/overlap.py`). torch's DistributedDataParallel does that, too. But it divides by the number
of processes, it must be switched off for micro-batches and for Sophia's second backward pass, and it regroups
its buckets after the first step: with three or more processes a resumed run would then add in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from htbench.harness.errors import PeerLostError

if TYPE_CHECKING:
    from torch import Tensor, nn

T = TypeVar("T")

# The death of a process is noticed at once, by its closed connections. This limit is for a process that
# hangs. It is longer than the main process needs to write a checkpoint.
PATIENCE = timedelta(minutes=10)
BUCKET = 2**23  # numbers per all-reduce


@dataclass(frozen=True)
class Group:
    """The processes of a run. With a single process every method returns its argument at once.

    Methods raise PeerLostError if another process has ended.

    Attributes:
        rank: the number of this process; 0 is the main process.
        size: the number of processes.
        local_rank: the number of this process on its node; it selects the GPU.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this process owns the run."""
        return self.rank == 0

    def shard(self, samples: Tensor) -> Tensor:
        """This process's part of samples along the first dimension; the first processes get the remainder."""
        return samples if self.size == 1 else samples.tensor_split(self.size)[self.rank]

    def all_reduce_sum(self, values: Sequence[float]) -> list[float]:
        """The sum over all processes of each value, the same bits in all of them."""
        return self._reduced(values, "SUM")

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """For each flag whether it is true in any process."""
        return [bool(value) for value in self._reduced(flags, "MAX")]

    def same(self, number: int) -> bool:
        """Whether all processes give the same number."""
        greatest, least = self._reduced([number, -number], "MAX")
        return greatest == -least

    def broadcast(self, value: T) -> T:
        """The value of the main process, in all processes; they wait for it and ignore their own value."""
        if self.size == 1:
            return value
        import torch

        box = [value]
        with exchanging() as distributed:
            distributed.broadcast_object_list(box, device=torch.device("cpu"))
        return box[0]

    def all_gather(self, value: T) -> list[T]:
        """The values of all processes."""
        if self.size == 1:
            return [value]
        values = [value] * self.size
        with exchanging() as distributed:
            distributed.all_gather_object(values, value)
        return values

    def to_main(self, value: T, source: int) -> T:
        """The value of process `source`, in the main process; all others return their own.

        Only these two take part; the others may leave the call out.
        """
        if not source or self.rank not in (0, source):
            return value
        import torch

        box, cpu = [value], torch.device("cpu")
        with exchanging() as distributed:
            if self.is_main:
                distributed.recv_object_list(box, source, device=cpu)
            else:
                distributed.send_object_list(box, 0, device=cpu)
        return box[0]

    def sum_gradients(self, model: nn.Module) -> None:
        """Replace every gradient by its sum over all processes. One that a process lacks is zero there."""
        if self.size == 1:
            return
        import torch

        params = list(model.parameters())
        for p, used in zip(params, self.any([p.grad is not None for p in params]), strict=True):
            if used and p.grad is None:
                p.grad = torch.zeros_like(p)
        for bucket in buckets([p.grad for p in params if p.grad is not None]):
            flat = flattened(bucket)
            with exchanging() as distributed:
                distributed.all_reduce(flat)
            copy_parts(flat, bucket)

    def broadcast_tensors(self, tensors: Sequence[Tensor], source: int) -> None:
        """Replace tensors of one dtype by those of process `source`."""
        if self.size == 1:
            return
        ours = self.rank == source
        flat = flattened(tensors) if ours else tensors[0].new_empty(sum(t.numel() for t in tensors))
        with exchanging() as distributed:
            distributed.broadcast(flat, source)
        if not ours:
            copy_parts(flat, tensors)

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Replace the batch statistics by those of the main process, which are the run's."""
        for buffer in model.buffers() if self.size > 1 else ():
            with exchanging() as distributed:
                distributed.broadcast(buffer, src=0)

    def _reduced(self, values: Sequence[float], how: str) -> list[float]:
        if self.size == 1:
            return list(values)
        import torch

        tensor = torch.tensor(values, dtype=torch.float64)
        with exchanging() as distributed:
            distributed.all_reduce(tensor, op=getattr(distributed.ReduceOp, how))
        reduced: list[float] = tensor.tolist()
        return reduced


ALONE = Group()


def buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in their order, in lists of at most BUCKET numbers or one tensor."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and size + tensor.numel() > BUCKET:
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel()
    if bucket:
        yield bucket


def flattened(tensors: Iterable[Tensor]) -> Tensor:
    """All numbers of the tensors in one dimension."""
    import torch

    return torch.cat([tensor.flatten() for tensor in tensors])


def parts_like(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Views of what `flattened` returned, in the shapes of the tensors."""
    import torch

    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def copy_parts(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy the numbers of `flat` into the tensors that it was made of."""
    for tensor, part in zip(tensors, parts_like(flat, tensors), strict=True):
        tensor.copy_(part)


@contextmanager
def exchanging() -> Iterator[Any]:
    """torch.distributed; raises PeerLostError for an error of it that says that another process has ended."""
    from torch import distributed

    try:
        yield distributed
    except RuntimeError as error:
        # gloo raises a plain RuntimeError. NCCL's errors may also be about our own GPU, others about memory.
        lost = type(error) is RuntimeError or "ncclRemoteError" in str(error)
        if not lost and not isinstance(error, distributed.DistNetworkError | distributed.DistStoreError):
            raise
        raise PeerLostError(f"another process of this run is gone: {error}") from error
