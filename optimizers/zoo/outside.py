"""Makes a row of the zoo for a user's own optimizer class. Its hyperparameters come from its signature."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from htbench.imported import load, target
from htbench.optimizers.zoo.param import UNSET, Param
from htbench.optimizers.zoo.spec import OptimizerSpec, lr, weight_decay

if TYPE_CHECKING:
    from torch.optim import Optimizer

GROUP: Final = "htbench.optimizers"  # group of entry points of installed packages
USUAL_LR: Final = 1e-3  # for a class without a positive default

_FREE = "schedulefree"  # a package all of whose classes take a mean of the weights in place of a schedule
_OF_CONFIG = ("name", "routing", "aux_lr", "hyper")  # keys of `optimizer` in any config
_PLAIN = (bool, int, float, str, type(None))


@functools.cache
def spec(name: str) -> OptimizerSpec | None:
    """The row of a class outside of the zoo; None if there is no entry point of this name.

    The learning rate and the weight decay have a range. A class derived from `UpdateRule` gives its own
    ranges; of the hyperparameters of any other class only the type is checked.

    Args:
        name: "module:Class", or an entry point of the group `htbench.optimizers`.

    Raises:
        ValueError: the class can't be imported, or a training loop can't use it; the message is one sentence.
    """
    place = target(name, GROUP)
    if place is None:
        return None
    cls = _checked(name, load(place))
    params = dict(_params(cls))
    default = params.pop("lr").default
    rate = default if isinstance(default, int | float) and default > 0 else USUAL_LR
    decay = params.pop("weight_decay", None)
    return OptimizerSpec(
        name=name,
        target=place,
        family="outside",
        lr=lr(float(rate)),
        weight_decay=decay or Param(float, None, help="it has none"),
        params=params,
        schedules=("constant",) if any(c.__module__.partition(".")[0] == _FREE for c in cls.__mro__) else (),
        outside=True,
        has_weight_decay=decay is not None,
        switches=hasattr(cls, "train") and hasattr(cls, "eval"),
        flagged=_reads_use_muon(cls),
    )


def build(row: OptimizerSpec, params: list[Any], given: Mapping[str, Any]) -> Optimizer:
    """Build the optimizer of a row that `spec` made.

    Args:
        row: of a class outside of the zoo.
        params: all trainable parameters, or group dicts of them; passed as the first argument of the class.
        given: checked hyperparameters; passed as keyword arguments.

    Raises:
        ValueError: the class can't be imported. The constructor may raise anything.
    """
    cls: Any = load(row.target)
    optimizer: Optimizer = cls(params, **given)
    return optimizer


def _checked(name: str, found: object) -> type:
    from torch.optim import Optimizer

    if not (isinstance(found, type) and issubclass(found, Optimizer)):
        raise ValueError(f"'{name}' must be a subclass of torch.optim.Optimizer, not {_kind(found)}")
    if "lr" not in inspect.signature(found).parameters and "lr" not in _table(found):
        raise ValueError(f"'{name}' takes no lr, which the schedule of a run sets")
    if needs := [p.name for p in _arguments(found.step)[1:] if p.default is p.empty]:
        raise ValueError(
            f"the method step of '{name}' needs '{needs[0]}', which a training loop does not give; "
            f"a class whose step() works without it would do, such as torch.optim:AdamW"
        )
    return found


def _reads_use_muon(cls: type) -> bool:
    """Whether a constructor looks for `use_muon` in its groups, as those after KellerJordan/Muon do."""
    for own in cls.__mro__:
        try:
            if re.search("['\"]use_muon['\"]", inspect.getsource(vars(own)["__init__"])):
                return True
        except (KeyError, OSError, TypeError):  # it has none, or none in Python
            continue
    return False


def _kind(found: object) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"


# --- hyperparameters ---


def _params(cls: type) -> Iterator[tuple[str, Param]]:
    """The hyperparameters that a config can hold. One whose default is not a plain value can't be set."""
    table = _table(cls)
    yield from table.items()
    for argument in _arguments(cls)[1:]:  # the first is the parameters to train
        if argument.name not in (*table, *_OF_CONFIG) and (param := _param(argument)) is not None:
            yield argument.name, param


def _table(cls: type) -> Mapping[str, Param]:
    """The table of hyperparameters with ranges of a class derived from `UpdateRule`; else empty."""
    table = getattr(cls, "table", {})
    return table if isinstance(table, Mapping) and all(isinstance(p, Param) for p in table.values()) else {}


def _arguments(function: Any) -> list[inspect.Parameter]:
    """The parameters of a function without *args and **kwargs."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.kind not in variable]


def _param(argument: inspect.Parameter) -> Param | None:
    default = argument.default
    if argument.name == "lr" and hasattr(default, "item"):  # a tensor, which a compiled step reads anew
        default = default.item()
    if argument.name == "weight_decay":
        return weight_decay(float(default) if isinstance(default, int | float) else 0.0, "the class's own")
    if default is argument.empty:
        return Param(object, UNSET)  # type: ignore[arg-type]  # has no default
    if isinstance(default, list | tuple):
        numbers = all(_is_number(x) for x in default)
        return Param(tuple if numbers else object, tuple(default)) if _is_plain(default) else None
    if not _is_plain(default):
        return None
    return Param(_type(default, str(argument.annotation)), default)


def _type(default: object, annotation: str) -> Any:
    """The type of a default. An int such as `momentum=0` allows any real number unless annotated as int."""
    if type(default) is int:
        words = annotation.replace("<class '", "").replace("'>", "")
        return float if "float" in words else int if words == "int" else Real
    return object if default is None else type(default)


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN and not (isinstance(value, float) and not math.isfinite(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
