"""The machine of a measurement, with all that decides how fast it multiplies matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.system import environment

FLAGS = ("fma", "avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe(device: str, fingerprint: str = "") -> dict[str, Any]:
    """The environment of a record, the instruction set that torch uses, and which `FLAGS` the CPU has."""
    import torch  # not above: tables import this module, and commands import tables

    flags = _flags()
    return {
        **environment.describe(device, fingerprint),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cpu_flags": {flag: flag in flags for flag in FLAGS} if flags else None,
    }


def in_words(machine: dict[str, Any]) -> str:
    """`describe` in a line."""
    flags = machine["cpu_flags"] or {}
    words = "".join(f" {'+' if there else '-'}{flag}" for flag, there in flags.items())
    gpu = f"{machine['gpu']}, " if "gpu" in machine else ""
    return f"{gpu}{machine['cpu']} ({machine['cpu_capability']}{words}), torch {machine['torch']}"


def _flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # no Linux
        return set()
    return {word for line in lines if line.startswith("flags") for word in line.split(":", 1)[1].split()}
