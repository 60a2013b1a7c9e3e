"""YAML and `key=value` words to a resolved RunConfig, one clear sentence for every mistake. Torch-free.

Settings are a flat mapping from dotted names to plain values (`{"optimizer.lr": 0.01, "steps": 100}`). Files,
the command line and a sweep's points are all turned into it, and `a | b` merges two of them.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import optimizers
from harness import tasks
from harness.config import RunConfig, Value, hyper_schedules, limits, revisions, yaml_text
from harness.config.fitting import check_parts
from harness.config.names import canonical, flatten, settings_of
from harness.config.rule import resolve_rule
from harness.errors import UsageError, nearest
from optimizers.zoo.registry import UNSET, OptimizerSpec, Param, resolve_value

Settings = Mapping[str, Value]

_HYPER = "optimizer."
_REVISIONS = "revisions."  # a stored config names them
_TABLES = ("optimizer.hyper", "schedule.hyper", "revisions")  # of a stored config; they may be empty


def declarations(kind: type = RunConfig, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Every leaf field of the config with its dotted name, in the order of declaration."""
    for field in dataclasses.fields(kind):
        name = prefix + field.name
        if "part" in field.metadata:
            yield from declarations(field.metadata["part"], name + ".")
        elif "param" in field.metadata:
            yield name, field


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
    row = optimizers.spec(optimizer)
    known = params_of(row)
    return known[setting] if setting in known else hyper_schedules.params_of(row)[setting]


def known_settings() -> frozenset[str]:
    """The names of all settings, but for hyperparameters of optimizers outside the zoo."""
    return _settings_of(tuple(optimizers.ZOO))


@functools.cache
def _settings_of(names: tuple[str, ...]) -> frozenset[str]:
    rows = [optimizers.ZOO[name] for name in names]
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
    return name in known_settings() or (free and own)


def read_yaml(path: Path, resolve: bool = True) -> dict[str, Any]:
    """The mapping in a YAML file, loaded safely.

    OmegaConf reads `1e-3` as a number, plain PyYAML as a word.

    Args:
        path: the file.
        resolve: interpolations such as `${oc.env:NAME}`; not those of a file in a store, which could ask for
            what this user's environment holds.

    Raises:
        UsageError: no such file, no YAML, or no mapping.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        text = path.read_text(encoding="utf-8")
        yaml_text.check(text)
        loaded = OmegaConf.to_container(OmegaConf.load(io.StringIO(text)), resolve=resolve)
    except UsageError as error:
        raise UsageError(f"'{path}' can't be taken: {error}") from None
    except FileNotFoundError:
        raise UsageError(f"There is no file '{path}'.") from None
    except IsADirectoryError:
        raise UsageError(f"'{path}' is a folder; a YAML file is needed.") from None
    except OSError as error:
        raise UsageError(f"'{path}' can't be read: {error.strerror or error}.") from None
    except (YAMLError, UnicodeDecodeError, OmegaConfBaseException) as error:
        raise UsageError(f"'{path}' is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"'{path}' must hold a mapping of settings, not a {type(loaded).__name__}.")
    return {str(name): value for name, value in loaded.items()}


def resolved(tree: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What `read_yaml` of a file has left unresolved. Raises UsageError as that does."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        found = OmegaConf.to_container(OmegaConf.create(dict(tree)), resolve=True)
    except OmegaConfBaseException as error:
        raise UsageError(f"'{path}' is not valid YAML: {' '.join(str(error).split())}") from None
    return cast("dict[str, Any]", found)


def read_words(words: Sequence[str]) -> dict[str, Value]:
    """`key=value` words of a command line as settings; the values are read as YAML, as in a file.

    Raises:
        UsageError: a word without `=`, or a value that is no YAML.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    for word in words:
        if "=" not in word or word.startswith("="):
            raise UsageError(f"'{word}' is not of the form key=value, for example optimizer.lr=1e-3.")
    try:
        _check_words(words)
        return flatten(OmegaConf.to_container(OmegaConf.from_dotlist(list(words)), resolve=True))
    except (YAMLError, UnicodeError, OmegaConfBaseException) as error:
        raise UsageError(f"{' '.join(words)}: {' '.join(str(error).split())}") from None


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        name, _, value = word.partition("=")
        try:
            yaml_text.check(value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
        if re.split(r"[.\[]", name, maxsplit=yaml_text.DEEPEST)[yaml_text.DEEPEST :]:
            raise UsageError(f"Unknown setting '{name[:40]}...': it has more than {yaml_text.DEEPEST} parts.")


def resolve_config(settings: Settings) -> RunConfig:
    """The resolved config: values coerced and checked, every default written in.

    Args:
        settings: dotted names; `optimizer.X` is a hyperparameter unless OptimizerConfig has a field X, and
            `schedule.X.name` a part of its schedule.

    Raises:
        UsageError: an unknown name (with the nearest valid one), a wrong type, a value out of range, or parts
            that do not go together; one sentence.
    """
    try:
        given = _divide(settings)
        config: RunConfig = _build(RunConfig, given.fields)
        return _resolve(config, given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def as_stored(settings: Settings) -> RunConfig:
    """The config that a record or a stored file holds. It is complete, so none of its parts is looked up.

    What code before a field has written lacks it, and gets the value that acts alike (`Param.before`).

    Raises:
        UsageError: an unknown name, or a value that no config has; one sentence.
    """
    params = params_of(optimizers.ZOO.get(str(settings.get("optimizer.name"))))
    acted_by = {name: param.before for name, param in params.items() if param.before is not UNSET}
    try:
        given = _divide({**acted_by, **settings})
        config: RunConfig = _build(RunConfig, given.fields)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return dataclasses.replace(
        config,
        optimizer=dataclasses.replace(config.optimizer, hyper=given.hyper),
        schedule=dataclasses.replace(config.schedule, hyper=given.schedules),
        revisions=given.code,
    )


def to_settings(config: RunConfig) -> dict[str, Value]:
    """The inverse of `resolve_config`: all settings of a config, by dotted names."""
    return settings_of(_nested(config))


def _nested(part: Any) -> dict[str, Any]:
    """As `dataclasses.asdict`, which copies every value and so takes three times as long."""
    return {n: _nested(v) if dataclasses.is_dataclass(v) else v for n, v in vars(part).items()}


def to_yaml(config: RunConfig) -> str:
    """The config as YAML that `read_yaml`, `flatten` and `resolve_config` turn back into the same config."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(dataclasses.asdict(config)))


@dataclass(frozen=True)
class _Given:
    """Settings by where they go: to fields, hyperparameters, their schedules, and the revisions."""

    fields: dict[str, Value] = dataclasses.field(default_factory=dict)
    hyper: dict[str, Value] = dataclasses.field(default_factory=dict)
    schedules: dict[str, dict[str, Value]] = dataclasses.field(default_factory=dict)
    code: dict[str, Value] = dataclasses.field(default_factory=dict)


def _divide(settings: Settings) -> _Given:
    found = _Given()
    given = found.fields
    for name, value in settings.items():
        name = canonical(name)
        if name in FIELDS:
            if FIELDS[name].type is str:
                yaml_text.check_word(name, value)
            given[name] = resolve_value(FIELDS[name], name, value)
        elif name.startswith(_HYPER) and "." not in name.removeprefix(_HYPER):
            found.hyper[name.removeprefix(_HYPER)] = value
        elif scheduled := hyper_schedules.split(name):
            found.schedules.setdefault(scheduled[0], {})[scheduled[1]] = value
        elif name.startswith(_REVISIONS) and isinstance(value, int | str):
            found.code[name.removeprefix(_REVISIONS)] = value
        elif name in _TABLES and not value:
            continue
        else:
            raise UsageError(_unknown(name))
    values = {name: param.default for name, param in FIELDS.items()} | given
    alive = {name: value for name, value in given.items() if not FIELDS[name].is_inert(values)}
    return dataclasses.replace(found, fields=alive)


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


def _resolve(config: RunConfig, given: _Given) -> RunConfig:
    task = tasks.spec(config.task)
    check_parts(config)
    limits.check_config(config)
    optimizer, schedules = resolve_rule(config.optimizer, given.hyper, given.schedules, task.adamw_lr)
    resolved = dataclasses.replace(
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
    return dataclasses.replace(resolved, revisions=given.code or revisions.current(resolved))


def _options(config: RunConfig, task: tasks.TaskSpec) -> dict[str, Value]:
    """The settings of `tasks.OPTIONS`: with the task's own for empty ones, and unset if it takes them not."""
    for name, nothing in tasks.OPTIONS.items():
        value = getattr(config, name)
        if name not in task.takes and value not in nothing:
            raise UsageError(f"The task '{task.name}' has no {name}; remove {name}={value}.")
    unset = {name: nothing[0] for name, nothing in tasks.OPTIONS.items()}
    return unset | tasks.options(task.name, config)
