"""The resolved configs of a block's points. Torch-free.

To resolve a config takes most of the time of a plan. Points that differ only in independent numbers (learning
rates, seeds) share one resolved config, in which `dataclasses.replace` puts these numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import optimizers
from harness.config import RunConfig, Value, hyper_schedules
from harness.config.settings import FIELDS, param_of, resolve_config
from harness.store.points import SEED_FIELDS, is_tuned
from optimizers.zoo.registry import resolve_value
from sweeps.spec.sweep import Settings


class GridConfigs:
    """Resolves the settings of a block's points, each result equal to that of `resolve_config`.

    Args:
        axes: the settings in which the points differ.
    """

    def __init__(self, axes: Iterable[str]) -> None:
        self._axes = tuple(axes)
        self._resolved: dict[tuple[str, ...], RunConfig] = {}  # by the values on all other axes

    def resolve(self, settings: Settings) -> RunConfig:
        """The config of a point.

        Raises:
            UsageError: no run can have the settings; one sentence.
        """
        independent = _independent(settings.get("optimizer.name"), self._axes)
        # A schedule starts at the value of its hyperparameter, which `resolve_config` writes into it.
        scheduled = {f"optimizer.{part[0]}" for part in map(hyper_schedules.split, settings) if part}
        free = tuple(name for name in independent if name not in scheduled)
        shape = tuple(repr(settings[name]) for name in self._axes if name not in free)
        if shape not in self._resolved:
            self._resolved[shape] = resolve_config(settings)
            return self._resolved[shape]
        try:
            return _replaced(self._resolved[shape], {name: settings[name] for name in free})
        except ValueError:  # a value that is empty, or not allowed: `resolve_config` knows what to say
            return resolve_config(settings)


@functools.cache
def _independent(optimizer: Any, axes: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the axes whose values decide about no other setting and depend on none."""
    name = FIELDS["optimizer.name"].default if optimizer is None else optimizer
    return tuple(axis for axis in axes if name in optimizers.ZOO and _is_independent(name, axis))


def _is_independent(optimizer: str, setting: str) -> bool:
    if setting in SEED_FIELDS:
        return True
    row = optimizers.spec(optimizer)
    # An empty aux_lr is that of the task, and a weight decay is refused where there is none.
    special = {"optimizer.aux_lr"} | (set() if row.has_weight_decay else {"optimizer.weight_decay"})
    known = {f"optimizer.{name}" for name in row.params} | FIELDS.keys()
    if not is_tuned(setting) or setting in special or setting not in known:
        return False
    param = param_of(optimizer, setting)
    own = {name for one in row.params.values() for name in _conditions(one.inert)}
    deciding = {f"optimizer.{name}" for name in own}
    deciding |= {name for one in FIELDS.values() for name in _conditions(one.inert)}
    return param.type is float and not param.inert and setting not in deciding


def _conditions(inert: Iterable[Mapping[str, Any]]) -> set[str]:
    return {name for one in inert for name in one}


def _replaced(config: RunConfig, values: Mapping[str, Value]) -> RunConfig:
    """The config with other values of independent settings. Raises ValueError if one is not allowed."""
    groups: dict[str, dict[str, Value]] = {}
    for setting, value in values.items():
        if value is None:
            raise ValueError(f"{setting} is left to its default")
        group, _, name = setting.rpartition(".")
        for param in (FIELDS.get(setting), param_of(config.optimizer.name, setting)):
            value = value if param is None else resolve_value(param, setting, value)
        groups.setdefault(group, {})[name] = value
    parts: dict[str, Any] = groups.pop("", {})
    if "optimizer" in groups:
        own = groups.pop("optimizer")
        hyper = {name: own.pop(name) for name in list(own) if name in config.optimizer.hyper}
        parts["optimizer"] = replace(config.optimizer, hyper={**config.optimizer.hyper, **hyper}, **own)
    parts |= {group: replace(getattr(config, group), **own) for group, own in groups.items()}
    return replace(config, **parts)
