"""What this machine can do, and what a step takes of it apart from time: calls and products."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.bench.turns import Clock
from harness.cost.ledger import Tally
from harness.errors import UsageError

PEAK_SIZE = {"cpu": 1024, "cuda": 8192}  # of the square matrices whose product gives the peak


def check_device(device: str) -> None:
    """Raise UsageError if there is no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda needs a CUDA device, and torch sees none here.")


class CallCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What PyTorch's operations take while this is active: `tally`, which has no peak."""

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
