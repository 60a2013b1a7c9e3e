"""The dotted names of settings: nested values of a file or a record as a flat mapping. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flatten(nested: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted names."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def canonical(name: str) -> str:
    """`optimizer.hyper.p`, as a stored config has it, by the name that people use: `optimizer.p`.

    Likewise `schedule.p.to` for `schedule.hyper.p.to`.
    """
    return name.replace("optimizer.hyper.", "optimizer.").replace("schedule.hyper.", "schedule.")


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a config as stored (nested plain values), by the names that people use."""
    return {canonical(name): value for name, value in flatten(config).items()}
