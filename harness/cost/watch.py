"""Watches operations: what they compute, and what they keep alive; also those of fake tensors.

Products count by the formulas of `torch.utils.flop_counter`, which has no decompositions. Theirs are by Golub
and Van Loan, "Matrix Computations" (4th edition, 2013): 5.2.2 and 5.1.6 for QR by Householder reflections
whose thin Q is formed, 8.3 for the symmetric eigenproblem, figure 8.6.1 for the thin SVD. The routines of
LAPACK that torch calls divide and conquer, and may need fewer. All of them run far below the rate of matrix
products.
"""

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

Flops = Counter[Any]  # floating point operations by operation of torch

aten = torch.ops.aten

# --- what FlopCounterMode lacks; formulas of shapes ---


def qr(shape: tuple[int, ...], *_: Any, **__: Any) -> int:
    """Of the thin QR of (..., m, n) with Q: 4 k^2 (l - k/3), with k the shorter side and l the longer."""
    k, longer = sorted(shape[-2:])
    return math.prod(shape[:-2]) * round(4 * k * k * (longer - k / 3))


def eigh(shape: tuple[int, ...], *_: Any, **__: Any) -> int:
    """Of eigenvalues and -vectors of symmetric (..., n, n): 9 n^3."""
    return math.prod(shape[:-2]) * 9 * int(shape[-1]) ** 3


def svd(shape: tuple[int, ...], *_: Any, **__: Any) -> int:
    """Of the thin SVD of (..., m, n): 6 l k^2 + 20 k^3, with k the shorter side and l the longer."""
    k, longer = sorted(shape[-2:])
    return math.prod(shape[:-2]) * (6 * longer * k * k + 20 * k**3)


DECOMPOSITIONS: Final = {aten.linalg_qr: qr, aten._linalg_eigh: eigh, aten._linalg_svd: svd}
LACKING: Final[dict[Any, Callable[..., int]]] = {
    **DECOMPOSITIONS,
    # sums in place, and the kernel of attention on a CPU, which it knows on a GPU
    aten.addmm_: lambda total, a, b, **_: 2 * math.prod(a) * b[-1],
    aten.baddbmm_: lambda total, a, b, **_: 2 * math.prod(a) * b[-1],
    aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)  # type: ignore[no-untyped-call]
    ),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)  # type: ignore[no-untyped-call]
    ),
}
# By operation, of its arguments and `out_val`, what it returns.
FORMULAS: Final[Mapping[Any, Callable[..., int]]] = FlopCounterMode(
    display=False, custom_mapping=LACKING
).flop_registry


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations, follows the tensors that they make, and answers for fake ones that have no values.

    `FlopCounterMode` lends its formulas only: as a mode it imports torch.compile, which takes seconds.

    Attributes:
        live: bytes of all tensors that are alive now, by the lifetime of their storages.
        peak: most bytes alive since the last `counted` began.
        flops: of what was done since then.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self.flops: Flops = Counter()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def follow(self, tensors: Iterable[Tensor]) -> None:
        """Count the memory of tensors, unless it is counted already, until it is freed."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage not in self._seen:
                self._seen.add(storage)
                self.live += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self.peak = max(self.peak, self.live)

    def counted(self) -> Flops:
        """Begin anew, and return what is counted from now on."""
        self.flops, self.peak = Counter(), self.live
        return self.flops

    def _free(self, size: int) -> None:
        self.live -= size

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or else each operation asks torch.compile, which has nothing to do here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Carry the operation out, count it, and follow what it returns."""
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if func in _ANSWERS and isinstance(args[0], FakeTensor):
            return _ANSWERS[func](*args, **kwargs)
        if func in _DRAWS and args[0].is_meta:  # torch would import torch.compile to draw what nobody sees
            return args[0]
        out = func(*args, **kwargs)
        packet = func._overloadpacket
        if packet in FORMULAS:
            self.flops[packet] += FORMULAS[packet](*args, **kwargs, out_val=out)
        # A comparison x <= y is taken to hold for half of the entries, of one entry for none.
        if packet is aten.le:
            out.usual = out.numel() // 2
        elif packet is aten.sum and hasattr(args[0], "usual"):
            out.usual = args[0].usual
        self.follow(tensors_in(out))
        return out


def decomposing(flops: Flops) -> int:
    """The part of decompositions."""
    return sum(flops[operation] for operation in DECOMPOSITIONS)


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors in what an operation returns, or in the state of an optimizer."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(part)
    elif hasattr(value, "__dict__"):  # pytorch_optimizer's GaLore keeps an object
        yield from (part for part in vars(value).values() if isinstance(part, Tensor))


# --- values: a tensor without memory has none, and gives what is usual ---


def _value(x: Tensor) -> Any:
    """What `x.item()` returns: True for a condition (all is finite), unless it is a comparison x <= y."""
    if hasattr(x, "usual"):
        return x.usual if x.dtype != torch.bool else bool(x.usual)
    return {torch.bool: True}.get(x.dtype, 1.0 if x.is_floating_point() else 0)


def _all_places(x: Tensor) -> Tensor:
    """What `x.nonzero()` returns where all entries count."""
    return x.new_empty(x.numel(), x.ndim, dtype=torch.int64)


_DRAWS: Final = (aten.normal_.default, aten.uniform_.default)
_ANSWERS: Final = {aten._local_scalar_dense.default: _value, aten.nonzero.default: _all_places}
