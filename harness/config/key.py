"""The key: one config, one run. Torch-free.

It covers every field that can change the numbers, defaults written in: a changed default gives new keys and
old records keep theirs. A field added after version 0.1.0 is left out while it has the value under which code
without it behaved alike (`Param.before`). Revisions of the code are in above 1, and so are edits
(`harness/config/revisions.py`).
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from htbench import models, optimizers
from htbench.harness import tasks
from htbench.harness.config import OptimizerConfig, RunConfig, programs, revisions
from htbench.harness.errors import UsageError
from htbench.harness.tasks import TaskSpec
from htbench.models import ModelSpec
from htbench.optimizers.zoo.registry import OptimizerSpec, Param
from htbench.optimizers.zoo.spectral import ADAMUON, MUON, NORMUON

_INHERITED: tuple[Mapping[str, Param], ...] = ({}, MUON, NORMUON, ADAMUON)  # by classes derived from ours


@dataclass(frozen=True)
class ResolvedRun:
    """A run that this code can make: its config, every default written in, and the rows that it names."""

    config: RunConfig
    task: TaskSpec
    model: ModelSpec
    optimizer: OptimizerSpec

    @functools.cached_property
    def key(self) -> str:
        """As `run_key` gives it."""
        return _digest(_identity(self.config, self.optimizer.params, self.model.batch_norm))


def resolved(config: RunConfig) -> ResolvedRun:
    """The run of a config that `harness.config.settings.resolve_config` has made.

    Raises:
        UsageError: it was made by other code than this.
    """
    rule = optimizers.spec(config.optimizer.name, config.optimizer.routing)
    rows = tasks.spec(config.task), models.spec(config.model), rule
    now = revisions.current(config, *rows)
    for part in sorted({*config.revisions, *now}):
        then, today = config.revisions.get(part, 1), now.get(part, 1)
        if then != today:
            raise UsageError(
                f"This config is of other code: its {part} has revision {then}, here it is {today}; "
                f"remove revisions.{part} to train it as a new run."
            )
    return ResolvedRun(config, *rows)


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
    if config.program:
        return {_digest(programs.identity(config))}
    model, rule = models.SIZES.get(config.model), optimizers.ZOO.get(config.optimizer.name)
    divided = (False, True) if model is None else (model.batch_norm,)
    tables = _INHERITED if rule is None else (rule.params,)
    return {_digest(_identity(config, table, one)) for table in tables for one in divided}


def identity(config: RunConfig) -> dict[str, Any]:
    """The part of the config that the key covers, as nested plain values."""
    if config.program:
        return programs.identity(config)
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


def _kept(group: Any, params: Mapping[str, Param]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for field in dataclasses.fields(group):
        name, value = field.name, getattr(group, field.name)
        if not field.metadata["key"] or name == "revisions":  # those are in above 1 only: see `_identity`
            continue
        if "part" in field.metadata:
            inner = _kept(value, params)
            kept |= {name: inner} if inner else {}  # of a group added later, maybe nothing
        elif isinstance(group, OptimizerConfig) and name == "hyper":
            kept[name] = {n: x for n, x in value.items() if n not in params or x != params[n].before}
        elif name in ("hyper", "groups", "program"):  # of the schedule; of the optimizer; not of ours
            kept |= {name: {n: dict(own) for n, own in value.items()}} if value else {}
        elif value != field.metadata["param"].before:
            kept[name] = value
    return kept
