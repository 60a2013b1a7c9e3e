"""Where a run was made: code, versions, hardware. Recorded with every result, torch-free unless torch is loaded."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

CODE_VERSION_VARIABLE = "HTBENCH_CODE_VERSION"  # a pool asks git once and tells its workers
_LIBRARIES = ("torch", "numpy", "optuna", "tokenizers", "datasets")


@functools.cache
def code_version() -> str:
    """The commit of this code, with `+dirty` if files differ from it; the package version where there is no git."""
    told = os.environ.get(CODE_VERSION_VARIABLE)
    if told:
        return told
    here = Path(__file__).resolve().parent.parent
    commit = _git(here, "rev-parse", "--short=12", "HEAD") if (here / ".git").exists() else None
    if commit is None:
        return f"htbench {_version('htbench')}"
    return commit + ("+dirty" if _git(here, "status", "--porcelain") else "")


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
def cpu_model() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def describe(device: str, fingerprint: str, world_size: int = 1) -> dict[str, Any]:
    """The `environment` of a record (design.md, 3).

    Args:
        device: `cpu` or `cuda`.
        fingerprint: of the data.
        world_size: number of processes of the run.
    """
    return {
        "code": code_version(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "cpu": cpu_model(),
        **_gpu(device),
        "world_size": world_size,
        "data_fingerprint": fingerprint,
    }


def _gpu(device: str) -> dict[str, str]:
    torch = sys.modules.get("torch")
    if device != "cuda" or torch is None:
        return {}
    driver = _first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    return {"gpu": torch.cuda.get_device_name(), "driver": driver, "cuda": str(torch.version.cuda)}


def _first_line(command: list[str]) -> str:
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return output.partition("\n")[0].strip()
