"""The cost of a step apart from time: matrix products, calls and memory; and the peak rate of the machine."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.bench.pairs import Clock
from harness.cost.ledger import Tally

PEAK_SIZE = {"cpu": 1024, "cuda": 8192}  # of the square matrices whose product gives the peak


class CallCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What PyTorch's operations take while this is active: `tally`, which is not timed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tally = Tally()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Carry the operation out and count it."""
        out = func(*args, **(kwargs or {}))
        self.tally.add(func, args, kwargs or {}, out)
        return out


class Peak:
    """The best rate of matrix products on this machine, in operations per second, measured when asked for."""

    def __init__(self, device: str, clock: Clock) -> None:
        self._device, self._clock = device, clock
        self.rates: dict[torch.dtype, float] = {}

    def __getitem__(self, dtype: torch.dtype) -> float:
        if dtype not in self.rates:
            self.rates[dtype] = self._measure(dtype)
        return self.rates[dtype]

    def _measure(self, dtype: torch.dtype) -> float:
        n = PEAK_SIZE[self._device]
        matrix = torch.randn(n, n, device=self._device).to(dtype)
        seconds: list[float] = []
        # The first one warms up; bfloat16 without instructions for it takes seconds.
        while len(seconds) < 2 or (len(seconds) < 6 and sum(seconds) < 1):
            began = self._clock()
            matrix @ matrix
            seconds.append(self._clock() - began)
        return 2 * n**3 / min(seconds[1:])


def clock_of(device: str, threads: int) -> tuple[str, Clock]:
    """The clock to measure with and its name.

    CPU time for one thread, since other programs may use the machine; else the wall clock, on a GPU after
    `torch.cuda.synchronize`.
    """
    if device == "cuda":
        return "wall clock", _after_gpu
    return ("CPU time", time.process_time) if threads == 1 else ("wall clock", time.perf_counter)


def _after_gpu() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()
