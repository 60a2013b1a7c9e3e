"""What this machine can do, and what a step takes of it apart from time: calls and products."""

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from htbench.harness.bench.turns import Clock
from htbench.harness.cost.watch import DECOMPOSITIONS, FORMULAS
from htbench.harness.errors import UsageError

_NO_KERNEL = (torch.ops.aten._unsafe_view.default, torch.ops.aten.promote_types.default)  # views but in name

PEAK_SIZE = {"cpu": 1024, "cuda": 8192}  # of the square matrices whose product gives the peak


def check_device(device: str) -> None:
    """Raise UsageError if there is no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda needs a CUDA device, and torch sees none here.")


class CallCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts PyTorch's operations while it is active.

    Attributes:
        calls: of operations, views not counted. On a GPU nearly each starts a kernel.
        flops: of matrix products by precision ("float32"), of decompositions by operation.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls, self.flops = 0, Counter[Any]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Carry the operation out and count it."""
        out = func(*args, **(kwargs or {}))
        if not (func.is_view or func in _NO_KERNEL or func.namespace == "profiler"):
            self.calls += 1
            packet = func._overloadpacket
            if packet in FORMULAS:
                kind = packet if packet in DECOMPOSITIONS else str(args[0].dtype).removeprefix("torch.")
                self.flops[kind] += FORMULAS[packet](*args, **kwargs or {}, out_val=out)
        return out


class Peak:
    """The best rate of matrix products on this machine, in operations per second, measured when asked for."""

    def __init__(self, device: str, clock: Clock) -> None:
        self._device, self._clock = device, clock
        self.rates: dict[str, float] = {}

    def __getitem__(self, dtype: str) -> float:
        if dtype not in self.rates:
            n = PEAK_SIZE[self._device]
            matrix = torch.randn(n, n, device=self._device).to(getattr(torch, dtype))
            seconds: list[float] = []
            # The first one warms up; bfloat16 without instructions for it takes seconds.
            while len(seconds) < 2 or (len(seconds) < 6 and sum(seconds) < 1):
                began = self._clock()
                matrix @ matrix
                seconds.append(self._clock() - began)
            self.rates[dtype] = 2 * n**3 / min(seconds[1:])
        return self.rates[dtype]
