"""Watches operations: what they compute and move, and on tensors without memory what they keep alive.

Products count by the registry of `torch.utils.flop_counter`, which has no decompositions. Theirs are by Golub
and Van Loan, "Matrix Computations" (4th edition, 2013): 5.2.2 and 5.1.6 for QR by Householder reflections
whose thin Q is formed, 8.3 for the symmetric eigenproblem, figure 8.6.1 for the thin SVD. The routines of
LAPACK that torch calls divide and conquer, and may need fewer. All of them run far below the rate of matrix
products.
"""

import math
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten


def qr(*shape: int) -> int:
    """Of the thin QR of (..., m, n) with Q: 4 k^2 (l - k/3), with k the shorter side and l the longer."""
    *batch, m, n = shape
    k, longer = min(m, n), max(m, n)
    return math.prod(batch) * round(4 * k * k * (longer - k / 3))


def eigh(*shape: int) -> int:
    """Of eigenvalues and -vectors of symmetric (..., n, n): 9 n^3."""
    *batch, n, _ = shape
    return math.prod(batch) * 9 * n**3


def svd(*shape: int) -> int:
    """Of the thin SVD of (..., m, n): 6 l k^2 + 20 k^3, with k the shorter side and l the longer."""
    *batch, m, n = shape
    k, longer = min(m, n), max(m, n)
    return math.prod(batch) * (6 * longer * k * k + 20 * k**3)


DECOMPOSITIONS: Final[dict[Any, tuple[str, Callable[..., int]]]] = {
    aten.linalg_qr: ("qr", qr),
    aten._linalg_eigh: ("eigh", eigh),
    aten._linalg_svd: ("svd", svd),
}

_NO_KERNEL = (aten._unsafe_view.default, aten.promote_types.default)  # views but in name
# Operations that the registry of formulas lacks, with those that it has and that compute the same.
_SAME_WORK: Final = {
    aten.addmm_: aten.addmm,
    aten.baddbmm_: aten.baddbmm,
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        aten._scaled_dot_product_flash_attention_backward
    ),
}


@dataclass
class Tally:
    """What the operations of a phase take.

    Attributes:
        flops: of matrix products by precision ("float32"), of decompositions by name ("svd").
        moved: bytes that operations read and write.
        calls: of operations, views not counted. On a GPU nearly each starts a kernel.
        peak: most bytes alive.
    """

    flops: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    calls: int = 0
    peak: int = 0

    def add(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Count an operation, unless it is a view."""
        if func.is_view or func in _NO_KERNEL or func.namespace == "profiler":
            return
        self.calls += 1
        self.moved += sum(x.numel() * x.itemsize for part in (args, out) for x in _tensors(part))
        packet = func._overloadpacket
        formula = flop_registry.get(_SAME_WORK.get(packet, packet))
        if formula is not None:
            precision = str(args[0].dtype).removeprefix("torch.")
            self.flops[precision] += formula(*args, **kwargs, out_val=out)
        elif packet in DECOMPOSITIONS:
            name, formula = DECOMPOSITIONS[packet]
            self.flops[name] += formula(*args[0].shape)


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows operations on fake tensors (`torch._subclasses.FakeTensorMode`), whose mode is entered before.

    Attributes:
        live: bytes of all tensors that are alive now, by the lifetime of their storages.
        phases: what was done by the name of the phase; that which a checkpointed block computes again is
            "recomputation".
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0
        self.phases: dict[str, Tally] = defaultdict(Tally)
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._phase = "set-up"

    @contextmanager
    def phase(self, name: str) -> Iterator[Tally]:
        """What is done inside belongs to the phase of this name, which begins anew."""
        self._phase, before = name, self._phase
        self.phases[name] = Tally(peak=self.live)
        try:
            yield self.phases[name]
        finally:
            self._phase = before

    def follow(self, tensors: Iterable[Tensor]) -> None:
        """Count the memory of tensors, unless it is counted already, until it is freed."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage not in self._seen:
                self._seen.add(storage)
                self.live += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        tally = self.phases[self._phase]
        tally.peak = max(tally.peak, self.live)

    def _free(self, size: int) -> None:
        self.live -= size

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or else each operation asks torch.compile, which has nothing to do here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Carry the operation out on shapes alone and count it."""
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if func in _ANSWERS:
            return _ANSWERS[func](*args, **kwargs)
        out = func(*args, **kwargs)
        _note_share(func, args, out)
        again = self._phase == "backward" and torch.is_grad_enabled()
        self.phases["recomputation" if again else self._phase].add(func, args, kwargs, out)
        self.follow(_tensors(out))
        return out


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in what an operation takes or returns."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)


# --- values: a tensor without memory has none, and gives what is usual ---


def _note_share(func: Any, args: tuple[Any, ...], out: Any) -> None:
    """Remember how many entries a comparison x <= y is taken to hold for: half of them, of one entry none."""
    if func._overloadpacket is aten.le:
        out.usual = out.numel() // 2
    elif func._overloadpacket is aten.sum and hasattr(args[0], "usual"):
        out.usual = args[0].usual


def _value(x: Tensor) -> Any:
    """What `x.item()` returns: True for a condition (all is finite), unless it is a comparison x <= y."""
    if hasattr(x, "usual"):
        return x.usual if x.dtype != torch.bool else bool(x.usual)
    return {torch.bool: True}.get(x.dtype, 1.0 if x.is_floating_point() else 0)


def _all_places(x: Tensor) -> Tensor:
    """What `x.nonzero()` returns where all entries count."""
    return x.new_empty(x.numel(), x.ndim, dtype=torch.int64)


_ANSWERS: Final = {aten._local_scalar_dense.default: _value, aten.nonzero.default: _all_places}
