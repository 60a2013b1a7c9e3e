"""Where a run computes, and how much memory it takes there."""

from __future__ import annotations

import resource
import sys

import torch

from harness.config import RunConfig
from harness.errors import UsageError


def choose(config: RunConfig, local_rank: int = 0) -> str:
    """Return "cuda" or "cpu", as the config wants and the machine has.

    Args:
        config: of the run.
        local_rank: makes the GPU of this number the current one, of those that this process sees.

    Raises:
        UsageError: the config wants a GPU and there is none.
    """
    available = torch.cuda.is_available()
    if config.device == "cuda" and not available:
        raise UsageError("device=cuda, but PyTorch sees no GPU here; use device=auto or device=cpu.")
    if not available or config.device == "cpu":
        return "cpu"
    if local_rank:  # some clusters show each process its own GPU only, others all of the job's
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
    return "cuda"


def peak_memory(device: str) -> int:
    """Bytes: the peak on a GPU, else of the process's resident set (KiB on Linux, bytes on macOS)."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
