"""The key: one config, one run. Torch-free.

It covers every field that can change the numbers, defaults written in: a changed default gives new keys and
old records keep theirs. A field added later is left out while it has the value under which older code behaved
alike; the revision of a task, model or optimizer is in above 1.
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
from harness.config import OptimizerConfig, RunConfig
from optimizers.registry import UNSET, Param


def run_key(config: RunConfig) -> str:
    """The first 12 hex digits of the SHA-256 of the canonical JSON of what can change the run's numbers.

    Args:
        config: resolved, i.e. as `harness.settings` builds it, with every default written in.
    """
    return _digest(identity(config))


def keys_so_far(config: RunConfig) -> set[str]:
    """The run's keys, today's and those under every earlier revision of its task, model and optimizer."""
    names, latest = zip(*_revisions(config).items(), strict=True)
    rows = itertools.product(*(range(1, revision + 1) for revision in latest))
    return {_digest(_identity(config, dict(zip(names, row, strict=True)))) for row in rows}


def identity(config: RunConfig) -> dict[str, Any]:
    """The part of the config that the key covers, as nested plain values."""
    return _identity(config, _revisions(config))


def _digest(identity: dict[str, Any]) -> str:
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _revisions(config: RunConfig) -> dict[str, int]:
    return {
        "task": tasks.spec(config.task).revision,
        "model": models.spec(config.model).revision,
        "optimizer": optimizers.spec(config.optimizer.name).revision,
    }


def _identity(config: RunConfig, revisions: Mapping[str, int]) -> dict[str, Any]:
    kept = _kept(config)
    if models.spec(config.model).batch_norm:
        # A batch's statistics depend on how it is split, so for these models the split is part of the run.
        kept |= {} if config.micro_batch is None else {"micro_batch": config.micro_batch}
        kept |= {} if config.processes == 1 else {"processes": config.processes}
    raised = {name: revision for name, revision in revisions.items() if revision > 1}
    return kept | ({"revisions": raised} if raised else {})


def _kept(group: Any) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        if not field.metadata["key"]:
            continue
        if "part" in field.metadata:
            kept[field.name] = _kept(value)
        elif "param" not in field.metadata:
            kept[field.name] = _kept_hyper(group)
        elif not _is_neutral(field.metadata["param"], value):
            kept[field.name] = value
    return kept


def _kept_hyper(optimizer: OptimizerConfig) -> dict[str, Any]:
    params = optimizers.spec(optimizer.name).params
    return {name: value for name, value in optimizer.hyper.items() if not _is_neutral(params[name], value)}


def _is_neutral(param: Param, value: Any) -> bool:
    return param.neutral is not UNSET and bool(value == param.neutral)
