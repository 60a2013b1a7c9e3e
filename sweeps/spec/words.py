"""The words of a command line, put into a sweep file.

The store keeps the file with them, so that the name of a stored sweep means what was planned, words included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.config import Value


def with_words(base: Mapping[str, Any], settings: Mapping[str, Value]) -> dict[str, Any]:
    """The base of a sweep with other values of these settings, by their dotted names."""
    found = _copy(base)
    for setting, value in settings.items():
        if not _replaced(found, setting, value):
            found[setting] = value
    return found


def to_text(tree: Mapping[str, Any]) -> str:
    """The file as YAML, its interpolations as they are."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(dict(tree)))


def _copy(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(inner) if isinstance(inner, Mapping) else inner for key, inner in tree.items()}


def _replaced(tree: dict[str, Any], setting: str, value: Value) -> bool:
    """Put a value in the place of the one that the file has, however it is nested; whether there was one."""
    for key, inner in tree.items():
        if str(key) == setting:
            tree[key] = value
            return True
        rest = setting.removeprefix(f"{key}.")
        if rest != setting and isinstance(inner, dict) and _replaced(inner, rest, value):
            return True
    return False
