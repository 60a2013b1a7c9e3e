"""What this machine has: Python, cores, memory, torch, GPUs, SLURM."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from htbench.harness.show.note import Note
from htbench.harness.system import environment
from htbench.harness.system.finding import Finding, note, ok, one_line, problem
from htbench.harness.system.machine import (
    ask,
    cgroup_limits,
    gpu_driver,
    gpu_variable,
    hides_gpus,
    usable_cores,
)


def _python(root: Path) -> Iterator[Finding]:
    python, system = platform.python_version(), platform.platform()
    yield ok("python", Note("python_here", python=python, folder=sys.prefix, system=system))
    yield ok("code", Note("code_here", code=environment.code_version(), folder=environment.HOME))


def _cores(root: Path) -> Iterator[Finding]:
    total, usable = os.cpu_count() or 1, usable_cores()
    yield ok("cores", Note("cores_here", total=total, usable=usable))
    memory = psutil.virtual_memory()
    limit = min([memory.total, *(int(words[0]) for words in cgroup_limits("memory.max"))])
    free = min(memory.available, limit)
    yield ok("memory", Note("memory_here", free=free / 2**30, limit=limit / 2**30))


def _torch(root: Path) -> Iterator[Finding]:
    variable, gpus = gpu_variable(), list[str]()
    if shutil.which("nvidia-smi") is None or hides_gpus():
        yield ok("gpus", Note("gpus_hidden" if hides_gpus() else "no_gpus", variable=variable))
    else:
        worked, text = ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        if worked:
            gpus, named = text.splitlines(), os.environ.get(variable)
            yield ok("gpus", Note("gpus_here", gpus=gpus, variable=variable, named=named))
        else:
            advice = Note("runs_are_refused" if gpu_driver() else "runs_use_cpu")
            yield problem("gpus", Note("nvidia_smi_fails", why=one_line(text)), advice)
    began = time.monotonic()
    try:
        import torch
    except (ImportError, OSError) as error:
        yield problem("torch", Note("torch_fails", why=one_line(str(error))), Note("install_torch"))
        return
    cuda, seconds = torch.version.cuda or torch.version.hip, time.monotonic() - began
    kind = "torch_built_for" if cuda else "torch_of_cpu"
    fact = Note(kind, version=torch.__version__, cuda=cuda, seconds=seconds)
    if gpus and not cuda:
        yield note("torch", fact, Note("install_torch_for_gpu"))
    elif gpus and not torch.cuda.is_available():
        yield problem("torch", Note("torch_without_gpu", torch=fact), Note("choose_wheel"))
    else:
        yield ok("torch", fact)


def _slurm(root: Path) -> Iterator[Finding]:
    commands = ("sinfo", "sbatch", "squeue")
    missing = [name for name in commands if shutil.which(name) is None]
    if len(missing) == len(commands):
        yield ok("slurm", Note("no_slurm"))
        return
    if missing:
        yield note("slurm", Note("commands_missing", commands=missing), Note("load_slurm"))
    if "sinfo" not in missing:
        worked, text = ask("sinfo", "--noheader", "--format=%P")
        silent = Note("controller_is_silent", why=one_line(text))
        advice = Note("ask_administrators")
        answers = Note("controller_answers", partitions=text.split())
        yield ok("slurm", answers) if worked else problem("slurm", silent, advice)
    if "SLURM_JOB_ID" not in os.environ:
        yield note("slurm", Note("no_allocation"), Note("allocate"))


CHECKS = (_python, _cores, _torch, _slurm)
