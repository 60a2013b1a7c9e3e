"""What a hyperparameter may be, and how a value from YAML or a command line becomes one.

Standard library only, like the table built from it (`registry.py`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final, Literal, TypeAlias

Value: TypeAlias = "float | int | bool | str | tuple[Any, ...] | None"
Kind: TypeAlias = "type[float] | type[int] | type[bool] | type[str] | type[tuple[float, ...]] | type[object]"

UNSET: Final = ...  # not declared; None may be a real value, and Ellipsis survives pickling


@dataclass(frozen=True)
class Param:
    """One hyperparameter: its type, default and allowed range.

    Args:
        type: float, int, bool, str, or tuple: as many floats as the default has (the betas of Adam), any
            number of them where that is empty. A class outside of the zoo says less: `numbers.Real` is whole
            or not, `object` any plain value.
        default: value of an unset field. With a default of None, None is itself an allowed value. With UNSET
            there is none, and a value must be given.
        low, high: bounds, for a tuple those of each entry; None is unbounded.
        low_open, high_open: whether the bound itself is excluded.
        choices: the allowed words of a str.
        before: of a parameter added after version 0.1.0, the value under which code without it behaved the
            same. With this value it stays out of the key, so that older records keep theirs.
        used_by: "rule", the constructor of the class; "step", `optimizers.steps`; "aux",
            the auxiliary AdamW; "build", which divides the parameters into groups.
        inert: settings under which the value changes nothing, so that they are one run: a mapping
            from names to values, of which all must agree; of several mappings one. The default stands for
            all of its values.
        help: one line for listings.
    """

    type: Kind
    default: Value
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple[str, ...] | None = None
    before: object = UNSET
    used_by: Literal["rule", "step", "aux", "build"] = "rule"
    inert: tuple[Mapping[str, tuple[Value, ...]], ...] = ()
    help: str = ""

    def allowed(self) -> str:
        """Describe the allowed values, to follow "must be": "a finite number in [0, 1)"."""
        if self.type is bool:
            words = "true or false"
        elif self.choices:
            words = "one of " + ", ".join(self.choices)
        else:
            words = self._noun() + self._interval()
        return words + (" or null" if self.default is None else "")

    def allows(self, value: Value) -> bool:
        """Whether a value that already has the right type is one of the allowed ones."""
        if self.type is object:
            return True
        if isinstance(value, tuple):
            expected = self.default if isinstance(self.default, tuple) else ()
            return len(value) == (len(expected) or len(value)) and all(map(self._inside, value))
        if isinstance(value, str):
            return self.choices is None or value in self.choices
        return value is not None and self._inside(value)

    def is_inert(self, settings: Mapping[str, object]) -> bool:
        """Whether the value changes nothing beside these settings."""
        return any(all(settings.get(name) in values for name, values in one.items()) for one in self.inert)

    def _noun(self) -> str:
        if self.type is tuple and isinstance(self.default, tuple):
            return f"{len(self.default)} numbers" if self.default else "a list of numbers"
        return _NOUNS[self.type]

    def _interval(self) -> str:
        if self.low is not None and self.high is not None:
            left, right = "(" if self.low_open else "[", ")" if self.high_open else "]"
            return f" in {left}{self.low:g}, {self.high:g}{right}"
        if self.low is not None:
            return f" {'>' if self.low_open else '>='} {self.low:g}"
        return "" if self.high is None else f" {'<' if self.high_open else '<='} {self.high:g}"

    def _inside(self, x: float) -> bool:
        above = self.low is None or (x > self.low if self.low_open else x >= self.low)
        below = self.high is None or (x < self.high if self.high_open else x <= self.high)
        return math.isfinite(x) and above and below


def resolve_value(param: Param, field_name: str, value: object) -> Value:
    """Coerce one value ("1e-3" to 0.001, 5.0 to 5 for an int) and check it against its range.

    Raises:
        ValueError: naming the field, what is allowed and the offending value.
    """
    if value is UNSET:
        raise ValueError(f"{field_name} has no default and must be given")
    if value is None and (param.default is None or param.type is object):
        return None
    try:
        coerced = _COERCE[param.type](value)
    except (TypeError, ValueError, OverflowError):
        coerced = None
    if coerced is None or not param.allows(coerced):
        raise ValueError(f"{field_name} must be {param.allowed()}, got {value!r}")
    return coerced


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("true and false are not numbers")
    return float(value)


def _whole(value: Any) -> int:
    if type(value) is int:  # a float holds no more than 53 bits of it
        return value
    number = _number(value)
    if not number.is_integer():
        raise ValueError("not integral")
    return int(number)


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a word")
    return value


def _numbers(value: Any) -> tuple[float, ...]:
    parts = value.strip("[]() ").split(",") if isinstance(value, str) else value
    return tuple(_number(part) for part in parts)


def _real(value: Any) -> float | int:
    """A whole number stays one: it may count something."""
    number = _number(value)
    return int(number) if number.is_integer() else number


def _plain(value: Any) -> Value:
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if not isinstance(value, bool | int | float | str | None):
        raise TypeError("not plain")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not finite")
    return value


_NOUNS: dict[Any, str] = {
    float: "a finite number",
    int: "a whole number",
    str: "a word",
    Real: "a number",
    object: "a number, a word, true, false, null or a list of them",
}
_COERCE: dict[Any, Callable[[Any], Value]] = {
    Real: _real,
    object: _plain,
    float: _number,
    int: _whole,
    bool: _truth,
    str: _word,
    tuple: _numbers,
}
