"""Settings to a resolved RunConfig, one clear sentence for every mistake. Torch-free.

Settings are a flat mapping from dotted names to plain values (`{"optimizer.lr": 0.01, "steps": 100}`). Files,
the command line (`harness/config/yaml_text.py`) and a sweep's points are all turned into it, and `a | b`
merges two of them.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from htbench import models, optimizers
from htbench.harness import tasks
from htbench.harness.config import (
    OptimizerConfig,
    RunConfig,
    Value,
    groups,
    hyper_schedules,
    limits,
    programs,
    revisions,
    yaml_text,
)
from htbench.harness.config.names import canonical, drop_removed, settings_of
from htbench.harness.errors import UsageError, nearest
from htbench.optimizers.zoo.registry import UNSET, OptimizerSpec, Param, resolve_value

Settings = Mapping[str, Value]

_HYPER = "optimizer."
_REVISIONS = "revisions."  # a stored config names them
# Of a stored config; they may be empty.
_TABLES = ("optimizer.hyper", "optimizer.groups", "schedule.hyper", "revisions")


def declarations(kind: type = RunConfig, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Every leaf field of the config with its dotted name, in the order of declaration."""
    for field in dataclasses.fields(kind):
        name = prefix + field.name
        if "part" in field.metadata:
            yield from declarations(field.metadata["part"], name + ".")
        elif "param" in field.metadata:
            yield name, field


# Values as usual as the default, which our own sweep files fix: alike in all rows, they are no danger.
USUAL: Mapping[str, tuple[Value, ...]] = {
    "grad_clip": (1.0,),
    "optimizer.ns_dtype": ("float32",),
    "schedule.floor": (0.0,),
    "schedule.warmup": (0.0, 0.3),
}
FIELDS: dict[str, Param] = {name: field.metadata["param"] for name, field in declarations()}


def params_of(row: OptimizerSpec | None) -> dict[str, Param]:
    """The declaration of every setting of a run by its dotted name.

    Args:
        row: the optimizer of the run; None: unknown, then without its hyperparameters.
    """
    if row is None:
        return dict(FIELDS)
    own = {"lr": row.lr, "weight_decay": row.weight_decay, **row.params}
    return FIELDS | {f"{_HYPER}{name}": param for name, param in own.items()}


def param_of(optimizer: str, setting: str) -> Param:
    """The declaration of one setting beside an optimizer.

    Args:
        optimizer: a name in the zoo, or `module:Class`.
        setting: dotted, such as `optimizer.lr`.

    Raises:
        KeyError: there is no such setting.
    """
    if optimizer == programs.RULE:
        return Param(float, None, help="a setting of a program")
    row = optimizers.spec(optimizer)
    if of_group := groups.parse(setting):
        return groups.param_of(row, *of_group)
    known = params_of(row)
    return known[setting] if setting in known else hyper_schedules.params_of(row)[setting]


def field_value(name: str, value: Value) -> Value:
    """A value of a field of the config, coerced.

    Raises:
        UsageError: the field can't have such a value.
    """
    try:
        return resolve_value(FIELDS[name], name, value)
    except ValueError as error:
        raise UsageError(str(error)) from None


@functools.cache
def known_settings() -> frozenset[str]:
    """The names of all settings, but for hyperparameters of optimizers outside the zoo."""
    rows = optimizers.ZOO.values()
    return frozenset(name for row in rows for name in (*params_of(row), *hyper_schedules.params_of(row)))


def is_setting(name: str, rules: Iterable[object] = ()) -> bool:
    """Whether some config can have a setting.

    Args:
        name: dotted.
        rules: the optimizers in question; with one from outside, every `optimizer.NAME` may be a setting,
            and so may the parts of a schedule of it.
    """
    free = any(rule not in optimizers.ZOO for rule in rules)
    own = (name.startswith(_HYPER) and name.count(".") == 1) or hyper_schedules.split(name) is not None
    return (
        name in known_settings()
        or groups.parse(name) is not None
        or (free and own)
        or name.startswith(programs.PREFIX)
    )


def resolve_config(settings: Settings) -> RunConfig:
    """The resolved config: values coerced and checked, every default written in.

    Args:
        settings: dotted names; `optimizer.X` is a hyperparameter unless OptimizerConfig has a field X, and
            `schedule.X.name` a part of its schedule.

    Raises:
        UsageError: an unknown name (with the nearest valid one), a wrong type, a value out of range, or parts
            that do not go together; one sentence.
    """
    if programs.is_program(settings):
        return programs.resolve(settings)
    try:
        config = _as_given(settings)
        task, model, rule = (
            tasks.spec(config.task),
            models.spec(config.model),
            optimizers.spec(config.optimizer.name, config.optimizer.routing),
        )
        limits.check_config(config, task, model)
        optimizer, schedules = _resolve_rule(config, rule, task.adamw_lr)
        config = dataclasses.replace(
            config,
            optimizer=optimizer,
            schedule=dataclasses.replace(config.schedule, hyper=schedules),
            seq_len=config.seq_len or task.seq_len,
            **_options(config, task),
            # One process has the statistics of its whole batch anyway.
            sync_batch_norm=config.sync_batch_norm and config.processes > 1,
            # The whole batch at once is what happens without micro-batches.
            micro_batch=None
            if config.micro_batch == config.batch_size // config.processes
            else config.micro_batch,
            data_fingerprint=config.data_fingerprint or tasks.fingerprint(config.task),
        )
        found = config.revisions or revisions.current(config, task, model, rule)
        return dataclasses.replace(config, revisions=found)
    except ValueError as error:
        raise UsageError(str(error)) from None


def as_stored(settings: Settings) -> RunConfig:
    """The config that a record or a stored file holds. It is complete, so none of its parts is looked up.

    What code before a field has written lacks it, and gets the value that acts alike (`Param.before`).

    Raises:
        UsageError: an unknown name, or a value that no config has; one sentence.
    """
    if programs.is_program(settings):
        return programs.resolve(settings)
    params = params_of(optimizers.ZOO.get(str(settings.get("optimizer.name"))))
    acted_by = {name: param.before for name, param in params.items() if param.before is not UNSET}
    try:
        return _as_given({**acted_by, **settings})
    except ValueError as error:
        raise UsageError(str(error)) from None


def to_settings(config: RunConfig) -> dict[str, Value]:
    """The inverse of `resolve_config`: all settings of a config, by dotted names."""
    return settings_of(stored_form(config))


def stored_form(config: RunConfig) -> dict[str, Any]:
    """The config as nested plain values, as records and files have it."""
    return programs.as_stored(config) if config.program else _nested(config)


def _nested(part: Any) -> dict[str, Any]:
    """As `dataclasses.asdict`, which copies every value and so takes three times as long."""
    return {n: _nested(v) if dataclasses.is_dataclass(v) else v for n, v in vars(part).items()}


def to_yaml(config: RunConfig) -> str:
    """The config as YAML that `read_yaml`, `flatten` and `resolve_config` turn back into the same config."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(stored_form(config)))


# --- from settings to fields ---


def _as_given(settings: Settings) -> RunConfig:
    """The config with its fields checked, and hyperparameters, schedules and revisions as they are given."""
    settings = drop_removed(dict(settings))
    given: dict[str, Value] = {}
    hyper: dict[str, Value] = {}
    schedules: dict[str, dict[str, Value]] = {}
    named: dict[str, dict[str, Value]] = {}
    code: dict[str, Value] = {}
    for name, value in settings.items():
        name = canonical(name)
        if name in FIELDS:
            if FIELDS[name].type is str:
                yaml_text.check_word(name, value)
            given[name] = resolve_value(FIELDS[name], name, value)
        elif name.startswith(_HYPER) and "." not in name.removeprefix(_HYPER):
            hyper[name.removeprefix(_HYPER)] = value
        elif of_group := groups.parse(name):
            named.setdefault(of_group[0], {})[of_group[1]] = value
        elif scheduled := hyper_schedules.split(name):
            schedules.setdefault(scheduled[0], {})[scheduled[1]] = value
        elif name.startswith(_REVISIONS) and isinstance(value, int | str):
            code[name.removeprefix(_REVISIONS)] = value
        elif name not in _TABLES or value:
            raise UsageError(_unknown(name))
    values = {name: param.default for name, param in FIELDS.items()} | given
    alive = {name: value for name, value in given.items() if not FIELDS[name].is_inert(values)}
    config: RunConfig = _build(RunConfig, alive)
    return dataclasses.replace(
        config,
        optimizer=dataclasses.replace(config.optimizer, hyper=hyper, groups=named),
        schedule=dataclasses.replace(config.schedule, hyper=schedules),
        revisions=code,
    )


def _unknown(name: str) -> str:
    where, _, what = name.partition(".")
    known = {name for row in optimizers.ZOO.values() for name in row.params} | {"weight_decay"}
    if where == "schedule" and what in known:
        return f"{name} must be a schedule, such as {{name: linear, from: 1, to: 0}}."
    return f"Unknown setting '{name}'; {nearest(name, FIELDS)}"


def _build(kind: type, given: Settings, prefix: str = "") -> Any:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        name = prefix + field.name
        if "part" in field.metadata:
            values[field.name] = _build(field.metadata["part"], given, name + ".")
        elif name in given:
            values[field.name] = given[name]
    return kind(**values)


def _options(config: RunConfig, task: tasks.TaskSpec) -> dict[str, Value]:
    """The settings of `tasks.OPTIONS`: with the task's own for empty ones, and unset if it takes them not."""
    for name, nothing in tasks.OPTIONS.items():
        value = getattr(config, name)
        if name not in task.takes and value not in nothing:
            raise UsageError(f"The task '{task.name}' has no {name}; remove {name}={value}.")
    unset = {name: nothing[0] for name, nothing in tasks.OPTIONS.items()}
    return unset | tasks.options(task.name, config)


def _resolve_rule(
    config: RunConfig, row: OptimizerSpec, adamw_lr: float
) -> tuple[OptimizerConfig, hyper_schedules.Schedules]:
    """The optimizer with every default, and the schedules of its hyperparameters.

    Args:
        config: with both as they are given.
        row: of the optimizer.
        adamw_lr: of the task, for the parameters that an auxiliary AdamW trains.

    Raises:
        UsageError: a hyperparameter or a schedule that the optimizer does not have.
        ValueError: a value out of its range.
    """
    given = config.optimizer
    for name in given.hyper:
        if name not in row.params:
            own = {field.name for field in dataclasses.fields(OptimizerConfig)} - {"hyper", "groups"}
            raise UsageError(
                f"Unknown setting 'optimizer.{name}' for {row.name}; {nearest(name, own | set(row.params))}"
            )
    if given.weight_decay and not row.has_weight_decay:
        raise UsageError(
            f"{row.name} has no weight decay; remove optimizer.weight_decay={given.weight_decay:g}."
        )

    def or_default(param: Param, name: str, value: Value) -> Value:
        return resolve_value(param, f"optimizer.{name}", param.default if value is None else value)

    decay = given.weight_decay if row.has_weight_decay else None
    schedules = hyper_schedules.resolve(row, config.schedule.hyper, {**given.hyper, "weight_decay": decay})
    first = {name: schedule["from"] for name, schedule in schedules.items()}
    first_decay = first.pop("weight_decay", decay)
    hyper = optimizers.resolve(row.name, {**given.hyper, **first}, given.routing)
    # What changes nothing beside the others gets its default, and no schedule. A hyperparameter with a
    # schedule has many values, so none of them makes another one inert.
    settings = {**row.fixed, **hyper, **dict.fromkeys(schedules, UNSET)}
    inert = {name: param.default for name, param in row.params.items() if param.is_inert(settings)}
    resolved = dataclasses.replace(
        given,
        lr=or_default(row.lr, "lr", given.lr),
        weight_decay=or_default(row.weight_decay, "weight_decay", first_decay),
        # Where one rule takes every parameter, routing and aux_lr change nothing and must not split the key.
        routing=given.routing if row.routed else OptimizerConfig.routing,
        aux_lr=or_default(row.aux_lr, "aux_lr", given.aux_lr or adamw_lr) if row.has_aux else None,
        hyper=hyper | inert,
    )
    named = groups.resolve(row, resolved, given.groups, config.schedule)
    resolved = dataclasses.replace(resolved, groups=named)
    return resolved, {name: schedule for name, schedule in schedules.items() if name not in inert}
