"""Whether plain values, as JSON gives them, have the types that a declaration says.

A store is written by many hands: what stands in a file is checked once, where it is read, against the
annotations of the dataclass or TypedDict that the code works with.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")
Check = Callable[[Any], bool]

REST = {"rest": True}  # metadata of the field that takes what this code does not know, as newer code wrote it
LATER = {"later": True}  # of a field whose values are checked by whoever makes the object
_DEEPEST = 32  # containers within containers, where anything may stand
_LEAVES = frozenset({str, int, float, bool, type(None)})
_UNIONS = (typing.Union, types.UnionType)


def make(cls: type[T], value: object) -> T | None:
    """An object of a dataclass from a JSON object; None unless every value has the type of its field.

    Fields with a default may be missing. An unknown name is kept in the field of metadata REST; without such
    a field there may be none.
    """
    declared: _Declaration = _read_declaration(cls)  # type: ignore[arg-type]  # classes can be hashed
    if type(value) is not dict or not declared.check(value):
        return None
    values = dict(value)
    if not declared.names.issuperset(values):
        values[declared.rest] = {name: values.pop(name) for name in value if name not in declared.names}
    for name, kind in declared.enums.items():
        if name in values:
            values[name] = kind(values[name])
    return cls(**values)


def fits(kind: Any, value: object) -> bool:
    """Whether a plain value is of a type: a scalar, an enum, a list, a mapping, a union, `Any`, or fields.

    A whole number is a float, too. `Any` is plain values, nested less than a few dozen times. Of a dataclass
    or a TypedDict are mappings whose values fit the fields they have; a dataclass may lack fields and both
    may have others.
    """
    return _check(kind)(value)


@dataclasses.dataclass(frozen=True)
class _Declaration:
    check: Check
    names: frozenset[str]
    rest: str
    enums: Mapping[str, type[Enum]]


@functools.cache
def _read_declaration(cls: Any) -> _Declaration:
    kinds, fields = typing.get_type_hints(cls), dataclasses.fields(cls)
    rest = "".join(field.name for field in fields if field.metadata == REST)
    missing = dataclasses.MISSING
    required = (f.name for f in fields if f.default is missing and f.default_factory is missing)
    hints = {f.name: object if f.metadata == LATER else kinds[f.name] for f in fields if f.name != rest}
    enums = {name: kind for name, kind in kinds.items() if _is_enum(kind)}
    check = _check_fields(hints, frozenset(required), is_open=bool(rest))
    return _Declaration(check, frozenset(hints), rest, enums)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


@functools.cache
def _check(kind: Any) -> Check:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _is_plain
    if kind is object:
        return lambda value: True
    if scalars := _list_scalars(kind):
        return lambda value: type(value) in scalars
    if _is_enum(kind):
        values = {member.value for member in kind}
        return lambda value: type(value) in _LEAVES and value in values
    if origin in _UNIONS:
        either = [_check(argument) for argument in arguments]
        return lambda value: any(check(value) for check in either)
    if origin in (list, tuple):
        return _check_items(list, list.__iter__, arguments[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _check_items(dict, dict.values, arguments[1])
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    return _check_fields(typing.get_type_hints(kind), required)


def _list_scalars(kind: Any) -> frozenset[Any]:
    """The types of values that a scalar, or a union of scalars, may have; none if it is neither."""
    if kind is float:
        return frozenset({float, int})
    if kind in (*_LEAVES, None):
        return frozenset({type(None) if kind is None else kind})
    parts = (
        [_list_scalars(part) for part in typing.get_args(kind)] if typing.get_origin(kind) in _UNIONS else []
    )
    return frozenset().union(*parts) if all(parts) else frozenset()


def _check_items(container: type, items: Callable[[Any], Iterable[Any]], kind: Any) -> Check:
    """Of a list or an object, all of whose values are of one type."""
    plain, check = _LEAVES if kind is Any else _list_scalars(kind), _check(kind)

    def fits(value: Any) -> bool:  # most are of scalars, which takes no call for each
        if type(value) is not container:
            return False
        return plain.issuperset(map(type, items(value))) or all(map(check, items(value)))

    return fits


def _check_fields(hints: Mapping[str, Any], required: frozenset[str], is_open: bool = True) -> Check:
    """Of a dataclass or a TypedDict; with `is_open` it may have more than its fields."""
    scalars = {name: _list_scalars(hint) for name, hint in hints.items()}
    checks = {name: _check(hint) for name, hint in hints.items()}
    unknown = _is_plain if is_open else lambda value: False

    def check(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys():
            return False
        for name, entry in value.items():  # no calls for most: ten thousand records have sixty settings each
            if type(entry) not in scalars.get(name, ()) and not checks.get(name, unknown)(entry):
                return False
        return True

    return check


def _is_plain(value: Any, deepest: int = _DEEPEST) -> bool:
    """Whether it is made of JSON's scalars, lists and objects, and a recursion over it ends early."""
    if type(value) in _LEAVES:
        return True
    inner = value.values() if type(value) is dict else value if type(value) is list else None
    if inner is None or not deepest:
        return False
    return all(type(entry) in _LEAVES or _is_plain(entry, deepest - 1) for entry in inner)
