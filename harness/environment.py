"""Where a run was made: code, versions, hardware. Recorded with every result; never loads torch itself."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import socket
import sys
from pathlib import Path
from typing import Any

from harness.machine import ask, usable_cores

CODE_VERSION_VARIABLE = "HTBENCH_CODE_VERSION"  # a pool asks git once and tells its workers
HOME = Path(__file__).resolve().parents[1]  # of the code that this process runs
_LIBRARIES = ("torch", "numpy", "optuna", "tokenizers", "datasets")


def git(home: Path) -> tuple[str, ...]:
    """How to ask git about code that we run. Whose files they are doesn't matter then: git may read them."""
    return "git", "-c", "safe.directory=*", "-C", str(home)


@functools.cache
def code_version() -> str:
    """The commit of this code, `+dirty` if files differ from it; without git, the package version."""
    told = os.environ.get(CODE_VERSION_VARIABLE)
    if told:
        return told
    described, commit = ask(
        *git(HOME), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+dirty"
    )
    return commit if described and (HOME / ".git").exists() else f"htbench {_version('htbench')}"


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
    """The `environment` of a record.

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
        "cores": usable_cores(),
        "device": device,
        **_gpu(device),
        "world_size": world_size,
        "data_fingerprint": fingerprint,
    }


def _gpu(device: str) -> dict[str, str]:
    torch = sys.modules.get("torch")
    if device != "cuda" or torch is None:
        return {}
    found, driver = ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver.partition("\n")[0] if found else "",
        "cuda": str(torch.version.cuda),
    }
