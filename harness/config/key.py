"""The key: one config, one run. Torch-free.

It covers every field that can change the numbers, defaults written in: a changed default gives new keys and
old records keep theirs. A field added later is left out while it has the value under which older code behaved
alike. Revisions of the code are in above 1, and so are edits (`harness/config/revisions.py`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any

import models
import optimizers
from harness import tasks
from harness.config import OptimizerConfig, RunConfig, ScheduleConfig
from optimizers.zoo.registry import UNSET, Param
from optimizers.zoo.spectral import ADAMUON, MUON, NORMUON

_INHERITED: tuple[Mapping[str, Param], ...] = ({}, MUON, NORMUON, ADAMUON)  # by classes derived from ours


def run_key(config: RunConfig) -> str:
    """The first 12 hex digits of the SHA-256 of the canonical JSON of what can change the run's numbers.

    Args:
        config: resolved, i.e. as `harness.config.settings` builds it, with every default written in.
    """
    return _digest(identity(config))


def stored_keys(config: RunConfig) -> set[str]:
    """The keys that a stored run with this config may have; nothing that it names is imported.

    Of parts from outside it is not known whether a batch's division counts, and which of our tables of
    hyperparameters a class inherits; so there are several keys.

    Args:
        config: as `harness.config.settings.as_stored` reads it.
    """
    model, rule = models.SIZES.get(config.model), optimizers.ZOO.get(config.optimizer.name)
    divided = (False, True) if model is None else (model.batch_norm,)
    tables = _INHERITED if rule is None else (rule.params,)
    return {_digest(_identity(config, table, one)) for table in tables for one in divided}


def keys_so_far(config: RunConfig) -> set[str]:
    """The run's key, and those under every earlier revision of its task, model and optimizer."""
    names, latest = zip(*_released(config).items(), strict=True)
    rows = itertools.product(*(range(1, revision + 1) for revision in latest))
    earlier = ({name: n for name, n in zip(names, row, strict=True) if n > 1} for row in rows)
    return {run_key(dataclasses.replace(config, revisions=one)) for one in earlier} | {run_key(config)}


def identity(config: RunConfig) -> dict[str, Any]:
    """The part of the config that the key covers, as nested plain values."""
    params = optimizers.spec(config.optimizer.name).params
    return _identity(config, params, models.spec(config.model).batch_norm)


def _identity(config: RunConfig, params: Mapping[str, Param], divided: bool) -> dict[str, Any]:
    kept = _kept(config, params)
    if divided:
        # A batch's statistics depend on how it is split, so for these models the split is part of the run.
        kept |= {} if config.micro_batch is None else {"micro_batch": config.micro_batch}
        kept |= {} if config.processes == 1 else {"processes": config.processes}
    return kept | ({"revisions": dict(config.revisions)} if config.revisions else {})


def _digest(identity: dict[str, Any]) -> str:
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _released(config: RunConfig) -> dict[str, int]:
    return {
        "task": tasks.spec(config.task).revision,
        "model": models.spec(config.model).revision,
        "optimizer": optimizers.spec(config.optimizer.name).revision,
    }


def _kept(group: Any, params: Mapping[str, Param]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        if not field.metadata["key"]:
            continue
        if "part" in field.metadata:
            kept[field.name] = _kept(value, params)
        elif isinstance(group, OptimizerConfig) and field.name == "hyper":
            kept[field.name] = _kept_hyper(group, params)
        elif isinstance(group, ScheduleConfig) and field.name == "hyper":
            kept |= {field.name: {name: dict(one) for name, one in value.items()}} if value else {}
        elif field.name == "revisions":
            continue  # above 1 only: see `identity`
        elif not _is_neutral(field.metadata["param"], value):
            kept[field.name] = value
    return kept


def _kept_hyper(optimizer: OptimizerConfig, params: Mapping[str, Param]) -> dict[str, Any]:
    neutral = {
        name for name, value in optimizer.hyper.items() if name in params and _is_neutral(params[name], value)
    }
    return {name: value for name, value in optimizer.hyper.items() if name not in neutral}


def _is_neutral(param: Param, value: Any) -> bool:
    return param.neutral is not UNSET and bool(value == param.neutral)
