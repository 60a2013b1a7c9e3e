"""The declaration of a setting: its type and range. Torch-free."""

from __future__ import annotations

import optimizers
from harness.config.settings import FIELDS
from optimizers.zoo.registry import Param


def param_of(optimizer: str, setting: str) -> Param:
    """The declaration of a setting for one optimizer, whose own row goes before the fields of all configs.

    Args:
        optimizer: a name in the zoo, or `module:Class`.
        setting: dotted, such as `optimizer.lr`.

    Raises:
        KeyError: there is no such setting.
    """
    row = optimizers.spec(optimizer)
    name = setting.removeprefix("optimizer.")
    own = {"lr": row.lr, "weight_decay": row.weight_decay, **row.params}
    return own[name] if name in own and name != setting else FIELDS[setting]
