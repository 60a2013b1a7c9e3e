"""Settings of named groups of parameters, such as `optimizer.groups.embedding.lr: 0.003`. Torch-free.

`optimizers/zoo/grouped.py` says what groups there are and fills in what is left open; a run adds a schedule.
"""

from collections.abc import Mapping
from typing import Any, Final

from htbench import optimizers
from htbench.harness.config.schema import OptimizerConfig, ScheduleConfig
from htbench.optimizers.zoo import grouped
from htbench.optimizers.zoo.grouped import Groups
from htbench.optimizers.zoo.registry import OptimizerSpec, Param, Value, resolve_value

PREFIX: Final = "optimizer.groups."
_OPTIMIZER: Final = Param(str, "adamw", help="who trains the group")
# How a group's learning rate changes: the words of `schedule`, which holds for all others.
SCHEDULE: Final[dict[str, str]] = {"schedule": "name", "warmup": "warmup", "floor": "floor", "decay": "decay"}
_SCHEDULE_PARAMS: Final[dict[str, Param]] = {
    word: ScheduleConfig.__dataclass_fields__[field].metadata["param"] for word, field in SCHEDULE.items()
}


def parse(name: str) -> tuple[str, str] | None:
    """The group and the setting in a dotted name: ("head", "lr"); else None. Patterns may have dots."""
    group, _, word = name.removeprefix(PREFIX).rpartition(".")
    return (group, word) if name.startswith(PREFIX) and group and word else None


def param_of(row: OptimizerSpec, group: str, word: str) -> Param:
    """The declaration of a setting of a group, whose optimizer is not known here if it is not the usual one.

    Raises:
        KeyError: no optimizer has it.
    """
    own = {"optimizer": _OPTIMIZER, **_SCHEDULE_PARAMS}
    if word in own:
        return own[word]
    rows = [row, optimizers.spec("adamw"), *optimizers.ZOO.values()]
    return next(found[word] for found in map(grouped.params_of, rows) if word in found)


def resolve(
    row: OptimizerSpec, config: OptimizerConfig, given: Groups, schedule: ScheduleConfig
) -> dict[str, dict[str, Value]]:
    """The groups of a run with every default written in.

    Args:
        row: of the main optimizer.
        config: the main optimizer, resolved.
        given: the settings of each group as given; None counts as not given.
        schedule: of the run. A group that says a part of its own takes the others from it.

    Raises:
        ValueError: a group or a setting that there is not, or a value that is not allowed; one sentence.
    """
    own = {name: {word: x for word, x in group.items() if x is not None} for name, group in given.items()}
    rules = {name: {w: x for w, x in group.items() if w not in SCHEDULE} for name, group in own.items()}
    around = {"lr": config.lr, "weight_decay": config.weight_decay, "aux_lr": config.aux_lr, **config.hyper}
    found = grouped.resolve(row, rules, around)
    return {name: found[name] | _schedule(name, own[name], schedule) for name in found}


def _schedule(name: str, own: Mapping[str, Any], schedule: ScheduleConfig) -> dict[str, Value]:
    if not SCHEDULE.keys() & own.keys():
        return {}
    words: dict[str, Value] = {}
    for word, field in SCHEDULE.items():
        value = own.get(word, getattr(schedule, field))
        words[word] = resolve_value(_SCHEDULE_PARAMS[word], f"{PREFIX}{name}.{word}", value)
    beside = {f"schedule.{field}": words[word] for word, field in SCHEDULE.items()}
    return {w: p.default if (p := _SCHEDULE_PARAMS[w]).is_inert(beside) else x for w, x in words.items()}
