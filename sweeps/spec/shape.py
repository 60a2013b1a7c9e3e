"""The shape of a part of a sweep file: known keys, mappings and whole numbers. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.errors import UsageError, nearest


def check_keys(tree: Mapping[str, Any], known: Iterable[str], where: str, what: str = "key") -> None:
    """Refuse unknown keys.

    Args:
        tree: the part of the file.
        known: its keys.
        where: the part in words, to follow "in".
        what: a key of it is called.

    Raises:
        UsageError: names the first unknown key and the nearest known one.
    """
    known = set(known)
    for key in tree:
        if key not in known:
            raise UsageError(f"Unknown {what} '{key}' in {where}; {nearest(str(key), known)}")


def mapping(tree: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The mapping under a key; empty if there is none. Raises UsageError for anything else."""
    value = tree.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"'{key}' must be a mapping, not {value!r}.")
    return dict(value)


def whole(name: str, value: Any, least: int) -> int:
    """A whole number that is at least `least`. Raises UsageError for anything else; `name` is its subject."""
    if type(value) is not int or value < least:
        raise UsageError(f"{name} must be a whole number from {least}, not {value!r}.")
    return value
