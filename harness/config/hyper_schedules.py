"""Schedules of the optimizer's hyperparameters, such as `schedule.p: {name: linear, from: 0.25, to: -0.25}`.

Torch-free; `harness/train/schedule.py` has the shapes as functions of the step.
"""

import dataclasses
from collections.abc import Mapping
from numbers import Real
from typing import Any, Final

from htbench.harness.errors import UsageError, nearest
from htbench.optimizers.zoo.registry import UNSET, OptimizerSpec, Param, Value, resolve_value

Schedules = Mapping[str, Mapping[str, Any]]  # by hyperparameter, then by part

PREFIX: Final = "schedule."

_UNSET: Any = UNSET
_BETWEEN: Final = {
    "start": Param(float, 0.0, low=0, high=1, help="fraction of the run up to which it is `from`"),
    "end": Param(float, 1.0, low=0, high=1, help="fraction of the run after which it is `to`"),
}
# The parts that each shape has besides its name and its ends.
SHAPES: Final[dict[str, dict[str, Param]]] = {
    "linear": _BETWEEN,
    "cosine": _BETWEEN,
    "sigmoid": {
        "centre": Param(float, _UNSET, help="fraction of the run at which it is half-way"),
        "width": Param(float, _UNSET, low=0, low_open=True, help="fraction of the run: to + (from - to) / "
                       "(1 + exp((t/T - centre) / width))"),
    },
}  # fmt: skip
_NAME: Final = Param(str, _UNSET, choices=tuple(SHAPES), help="shape of the schedule")
_OWN: Final = {part: param for shape in SHAPES.values() for part, param in shape.items()}
PARTS: Final = ("name", "from", "to", *_OWN)


def split(name: str) -> tuple[str, str] | None:
    """The hyperparameter and the part that a setting names: ("p", "to") for `schedule.p.to`; else None."""
    words = name.split(".")
    return (words[1], words[2]) if len(words) == 3 and words[0] == "schedule" else None


def numbers(row: OptimizerSpec) -> dict[str, Param]:
    """The hyperparameters of an optimizer that may have a schedule: its rule's numbers with fractions."""
    decay = {"weight_decay": row.weight_decay} if row.has_weight_decay else {}
    own = {name: p for name, p in row.params.items() if p.type in (float, Real) and p.used_by == "rule"}
    return decay | own


def params_of(row: OptimizerSpec) -> dict[str, Param]:
    """The declaration of every part of every schedule that an optimizer may have, by its dotted name."""
    return {
        f"{PREFIX}{name}.{part}": _param(param, part)
        for name, param in numbers(row).items()
        for part in PARTS
    }


def _param(own: Param, part: str) -> Param:
    """The declaration of a part; the ends have the range of the hyperparameter."""
    if part in ("from", "to"):
        return dataclasses.replace(own, type=float, default=_UNSET, before=UNSET, inert=())
    return _NAME if part == "name" else _OWN[part]


def resolve(row: OptimizerSpec, given: Schedules, values: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    """The schedules of a run, checked, with all defaults written in.

    Args:
        row: the optimizer.
        given: the parts as given; None counts as not given.
        values: the hyperparameters as given. One that has a schedule is where the schedule starts.

    Returns:
        by hyperparameter; each schedule has the parts of its shape and no others.

    Raises:
        UsageError: no such hyperparameter or part, or `from` is not the hyperparameter's value.
        ValueError: a value is not allowed.
    """
    return {name: _resolve(row, name, parts, values.get(name)) for name, parts in sorted(given.items())}


def _resolve(row: OptimizerSpec, name: str, given: Mapping[str, Any], value: Value) -> dict[str, Any]:
    own = _own_param(row, name)
    for part in given:
        if part not in PARTS:
            raise UsageError(f"Unknown part 'schedule.{name}.{part}' of a schedule; {nearest(part, PARTS)}")
    own_value = own.default if value is None else resolve_value(own, f"optimizer.{name}", value)

    def resolved(part: str, default: Any = UNSET) -> Any:
        found = given.get(part)
        param = dataclasses.replace(_param(own, part), default=default)
        return resolve_value(param, f"{PREFIX}{name}.{part}", default if found is None else found)

    shape, first = resolved("name"), resolved("from", UNSET if own_value is None else own_value)
    more = {part: resolved(part, param.default) for part, param in SHAPES[shape].items()}
    found = {"name": shape, "from": first, "to": resolved("to"), **more}
    _check(name, found, None if value is None else own_value)
    return found


def _check(name: str, schedule: Mapping[str, Any], value: Value) -> None:
    """Raise UsageError if the schedule contradicts itself, or the hyperparameter's value as given."""
    first, start, end = schedule["from"], schedule.get("start"), schedule.get("end")
    if value is not None and value != first:
        raise UsageError(
            f"optimizer.{name}={value} and schedule.{name}.from={first} contradict each other; "
            f"a schedule sets {name} from the first step, so remove one of them."
        )
    if start is not None and end is not None and start >= end:
        raise UsageError(f"schedule.{name}.start={start} must be less than schedule.{name}.end={end}.")


def _own_param(row: OptimizerSpec, name: str) -> Param:
    """The declaration of a hyperparameter that may have a schedule. Raises UsageError for any other."""
    known = numbers(row)
    if name in known:
        return known[name]
    if name == "lr":
        raise UsageError(
            "The learning rate has a schedule of its own: schedule.name, schedule.warmup, schedule.floor and "
            "schedule.decay; remove schedule.lr."
        )
    if name.startswith("aux_") and row.has_aux:
        raise UsageError(f"{name} belongs to the auxiliary AdamW, which has none; remove schedule.{name}.")
    if name in row.params:
        raise UsageError(
            f"{name} can't have a schedule: it must be {row.params[name].allowed()}, "
            f"and a schedule passes through fractions."
        )
    raise UsageError(f"Unknown hyperparameter 'schedule.{name}' for {row.name}; {nearest(name, known)}")
