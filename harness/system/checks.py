"""What this machine has: Python, cores, memory, torch, GPUs, SLURM."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil

from harness.system import environment
from harness.system.finding import Finding, note, ok, one_line, problem
from harness.system.machine import ask, cgroup_limits, gpu_variable, usable_cores

CPU_BUILD = "pip install 'torch>=2.9,<2.14' --index-url https://download.pytorch.org/whl/cpu"
WORKER_BYTES = 0.35 * 2**30  # memory of one worker on a nano model; measured: 0.28 GiB


def _python(root: Path) -> Iterator[Finding]:
    yield ok("python", f"{platform.python_version()} in {sys.prefix}, {platform.platform()}")
    yield ok("code", f"{environment.code_version()} in {environment.HOME}")


def _cores(root: Path) -> Iterator[Finding]:
    total, usable = os.cpu_count() or 1, usable_cores()
    yield ok("cores", f"{total}, of which this process may use {usable:g}")
    free, limit = free_memory()
    text = f"{free / 2**30:.1f} of {limit / 2**30:.1f} GiB free"
    if free < WORKER_BYTES * min(usable, 8):
        yield note("memory", text, f"use --workers {max(1, int(free / WORKER_BYTES))}")
    else:
        yield ok("memory", text)


def free_memory() -> tuple[int, int]:
    """The bytes that are free for this process, and of how many, by its cgroup's limits and the machine."""
    memory = psutil.virtual_memory()
    limit = min([memory.total, *(int(words[0]) for words in cgroup_limits("memory.max"))])
    return min(memory.available, limit), limit


def load_torch() -> Finding:
    """Import torch: its version, its build and the time that it took, or why it can't be imported."""
    began = time.monotonic()
    try:
        import torch
    except (ImportError, OSError) as error:
        what = f"can't be imported: {one_line(str(error))}"
        return problem("torch", what, "install it again, into this environment")
    cuda = torch.version.cuda or torch.version.hip
    build = f"built for {cuda}" if cuda else "CPU build"
    return ok("torch", f"{torch.__version__} ({build}), loaded in {time.monotonic() - began:.1f} s")


def _torch(root: Path) -> Iterator[Finding]:
    gpus = yield from _gpus()
    loaded = load_torch()
    if loaded.level == "problem":
        yield loaded
        return
    import torch

    cuda, text = torch.version.cuda or torch.version.hip, loaded.finding
    if gpus and not cuda:
        yield note("torch", text, "it can't use the GPU; see https://pytorch.org/get-started/locally")
    elif gpus and not torch.cuda.is_available():
        yield problem("torch", f"{text}; it can't reach the GPU", "its CUDA may be too new for the driver")
    elif cuda and not torch.cuda.is_available():
        yield note("torch", text, f"without a GPU, the CPU build saves gigabytes: {CPU_BUILD}")
    else:
        yield loaded


def _gpus() -> Generator[Finding, None, list[str]]:
    variable = gpu_variable()
    named = os.environ.get(variable)
    hidden = named in ("", "-1")
    if shutil.which("nvidia-smi") is None or hidden:
        yield ok("gpus", f"none ({variable} hides them)" if hidden else "none")
        return []
    worked, text = ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if not worked:
        yield problem("gpus", f"nvidia-smi fails: {one_line(text)}", "runs use the CPU until it works")
        return []
    shown = f"; {variable}={named}" if named else ""
    yield ok("gpus", " | ".join(text.splitlines()) + shown)
    return text.splitlines()


def _slurm(root: Path) -> Iterator[Finding]:
    commands = ("sinfo", "sbatch", "squeue")
    missing = [name for name in commands if shutil.which(name) is None]
    if len(missing) == len(commands):
        yield ok("slurm", "not on this machine; sweeps run locally")
        return
    if missing:
        yield note("slurm", f"lacks {', '.join(missing)} on the PATH", "load your site's SLURM module")
    if "sinfo" not in missing:
        yield _controller()
    if "SLURM_JOB_ID" not in os.environ:
        advice = "on a login node, train in an allocation: srun --cpus-per-task=8 --time=60 --pty bash"
        yield note("slurm", "this shell is not inside an allocation", advice)
    if shutil.which("sacct") is None:
        yield note("sacct", "not on the PATH")
        return
    worked, text = ask("sacct", "--noheader", "--allocations", "--starttime=now", "--format=JobID")
    yield ok("sacct", "answers") if worked else note("sacct", f"does not answer: {one_line(text)}")


def _controller() -> Finding:
    worked, text = ask("sinfo", "--noheader", "--format=%P")
    if worked:
        return ok("slurm", f"the controller answers; partitions: {' '.join(text.split())}")
    advice = "ask your administrators; runs on this machine don't need it"
    return problem("slurm", f"the controller does not answer: {one_line(text)}", advice)


CHECKS = (_python, _cores, _torch, _slurm)
