"""The dotted names of settings: nested values of a file or a record as a flat mapping. Torch-free."""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

# Settings that are gone, each with the value at which it did nothing: configs of older code have them.
REMOVED: Mapping[str, Any] = {
    **{"average.ema": None, "average.tail": None, "checkpoint.trunk": False},
    **{"optimizer.hyperball": False, "optimizer.clip_rms": None},  # of rows of the zoo
}
_LEAVES = frozenset({str, int, float, bool, type(None), list, tuple})  # quicker to tell than "no Mapping"


def flatten(nested: Any, prefix: str = "", rename: Callable[[str], str] = str) -> dict[str, Any]:
    """Nested mappings as one mapping with dotted names; `rename` changes the prefixes of inner mappings."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if type(value) not in _LEAVES and isinstance(value, Mapping):
            flat |= flatten(value, rename(f"{prefix}{name}."), rename)
        else:
            flat[sys.intern(f"{prefix}{name}")] = value  # one object in ten thousand records
    return flat


def canonical(name: str) -> str:
    """`optimizer.hyper.p`, as a stored config has it, by the name that people use: `optimizer.p`.

    Likewise `schedule.p.to` for `schedule.hyper.p.to`.
    """
    return name.replace("optimizer.hyper.", "optimizer.").replace("schedule.hyper.", "schedule.")


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a config as stored (nested plain values), by the names that people use."""
    settings = flatten(config, rename=_canonical)
    settings.pop("checkpoint.trunk", None)  # it changed no number, whatever it was
    return drop_removed(settings)


def drop_removed(settings: dict[str, Any]) -> dict[str, Any]:
    """Drop the settings that are gone, where these did nothing, and return the others."""
    outside = ":" in str(settings.get("optimizer.name"))  # a class may have arguments of these names
    for name, inert in REMOVED.items():  # few, where a store has ten thousand records of a hundred settings
        if name in settings and settings[name] == inert and not (outside and name.startswith("optimizer.")):
            del settings[name]
    return settings


_canonical = functools.lru_cache(1024)(canonical)  # ten thousand records have few names
