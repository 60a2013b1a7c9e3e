"""The device of a run, and how much memory the run takes."""

import contextlib
import resource
import sys
from collections import Counter
from collections.abc import Sequence

import torch

from htbench.harness.errors import NodeError, UsageError
from htbench.harness.parallel.group import ALONE, Group
from htbench.harness.system import slurm
from htbench.harness.system.machine import unused_gpu


def choose(device: str, group: Group = ALONE) -> str:
    """Return "cuda" or "cpu".

    Args:
        device: `cuda`, `cpu`, or `auto`: a GPU if the machine has one.
        group: the processes of the run. Each process makes one of the GPUs that it sees the current one.

    Raises:
        UsageError: a GPU is there that this build of torch can't use: without a word it would be the CPU.
        NodeError: a job was promised GPUs, and its node shows too few. On a node with a broken driver, `auto`
            would train on the CPU, as would all other runs that come to this node.
        UsageError: a GPU is wanted and there is none, or there are GPUs, but not one for each process.
    """
    if device == "cpu":
        return "cpu"
    promised = slurm.promised_gpus()
    broken = [RuntimeError] if promised else []  # a GPU may be listed, and fail at its first use
    gpu = ""
    with contextlib.suppress(*broken):
        gpu = _select_gpu(group)
    there = None if gpu else unused_gpu(torch.__version__, torch.version.cuda)
    gpus_seen = group.all_gather((slurm.own_node(), gpu, there))
    gpus = len({gpu for _, gpu, _ in gpus_seen} - {""})
    unused = next((note for _, _, note in gpus_seen if note and not gpus), None)
    if unused and (not promised or unused["needed"] or not unused["cuda"]):  # no fault of the node
        raise UsageError(str(unused))
    if promised and gpus < group.size:
        raise NodeError(_describe_shortage([(node, gpu) for node, gpu, _ in gpus_seen]))
    if device == "cuda" and not gpus:
        raise UsageError("device=cuda, but PyTorch sees no GPU here; use device=auto or device=cpu.")
    if 0 < gpus < group.size:
        raise UsageError(
            f"This run has {group.size} processes and {gpus} GPU{'s' if gpus > 1 else ''}, and each process "
            f"needs its own: use processes={gpus}, or device=cpu, or show it more (CUDA_VISIBLE_DEVICES)."
        )
    return "cuda" if gpus else "cpu"


def _select_gpu(group: Group) -> str:
    """The id of this process's GPU, which is now the current one; empty if it sees none."""
    if not torch.cuda.is_available():
        return ""
    if group.local_rank:  # on some clusters each process sees its own GPU only
        torch.cuda.set_device(group.local_rank % torch.cuda.device_count())
    return str(torch.cuda.get_device_properties().uuid)


def _describe_shortage(gpus_seen: Sequence[tuple[str, str]]) -> str:
    """A sentence on the nodes that show fewer GPUs than they have processes of the run.

    Args:
        gpus_seen: of each process the node and its GPU, empty without one.
    """
    needed = Counter(node for node, _ in gpus_seen)
    gpus_by_node = Counter(node for node, _ in {(node, gpu) for node, gpu in gpus_seen if gpu})
    short = {node: (gpus_by_node[node], needed[node]) for node in needed if gpus_by_node[node] < needed[node]}
    return str(slurm.shortage(short))


def forget(device: torch.device) -> None:
    """Give back the memory of a failed attempt on a GPU, and count the peak from now on."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: str) -> int:
    """Bytes: the peak on a GPU, else of the process's resident set (KiB on Linux, bytes on macOS)."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
