"""How a field of the config is declared: its type, range and meaning, and whether it belongs to the key."""

from __future__ import annotations

import dataclasses
from typing import Any

from optimizers.zoo.registry import Param


def option(param: Param, *, key: bool = True) -> Any:
    """A config field: `param` gives type, default, range and help.

    Args:
        param: the declaration; a field added later sets `before` to the value that acts as code before it.
        key: False if the field stays out of the key: it cannot change the numbers, which
            tests/harness/train/test_inert_fields.py proves, or it changes their last digits only (threads,
            processes, micro_batch, device, compile). Tables name the latter in a footnote.
    """
    return dataclasses.field(default=param.default, metadata={"param": param, "key": key})


def part(kind: type, *, key: bool = True) -> Any:
    """A config field that is itself a group of fields."""
    return dataclasses.field(default_factory=kind, metadata={"part": kind, "key": key})
