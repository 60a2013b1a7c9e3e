"""Which operations of PyTorch a piece of code calls."""

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_NO_KERNEL = (torch.ops.aten._unsafe_view.default, torch.ops.aten.promote_types.default)  # views but in name


class Operations(TorchDispatchMode):
    """Counts them while it is active.

    Attributes:
        seen: how often each was called, by name.
        kernels: the number of calls but of views: on a GPU nearly each starts a kernel.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.kernels = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[func._overloadpacket._qualified_op_name.removeprefix("aten::")] += 1
        self.kernels += not (func.is_view or func in _NO_KERNEL or func.namespace == "profiler")
        return func(*args, **(kwargs or {}))

    def count(self, *names: str) -> int:
        """The number of calls with one of these names."""
        return sum(self.seen[name] for name in names)
