"""The device of a run, and how much memory the run takes."""

from __future__ import annotations

import resource
import sys

import torch

from harness.errors import UsageError
from harness.parallel.group import ALONE, Group


def choose(wanted: str, group: Group = ALONE) -> str:
    """Return "cuda" or "cpu".

    Args:
        wanted: `cuda`, `cpu`, or `auto`: a GPU if the machine has one.
        group: the processes of the run. Each process makes one of the GPUs that it sees the current one.

    Raises:
        UsageError: a GPU is wanted and there is none, or there are GPUs, but not one for each process.
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise UsageError("device=cuda, but PyTorch sees no GPU here; use device=auto or device=cpu.")
    if wanted == "cpu":
        return "cpu"
    if available and group.local_rank:  # on some clusters each process sees its own GPU only
        torch.cuda.set_device(group.local_rank % torch.cuda.device_count())
    gpus = group.all_gather(str(torch.cuda.get_device_properties().uuid) if available else "")
    found = len(set(gpus) - {""})
    if 0 < found < group.size:
        raise UsageError(
            f"This run has {group.size} processes and {found} GPU{'s' * (found > 1)}, and each process needs "
            f"its own: use processes={found}, or device=cpu, or show it more (CUDA_VISIBLE_DEVICES)."
        )
    return "cuda" if available else "cpu"


def peak_memory(device: str) -> int:
    """Bytes: the peak on a GPU, else of the process's resident set (KiB on Linux, bytes on macOS)."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
