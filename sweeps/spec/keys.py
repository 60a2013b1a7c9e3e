"""How the parts of a sweep file are declared: dataclasses whose fields say what may stand under their keys.

The same declarations serve three readers: the checks of a file, the config reference (`docs/config.md`), and
the code, which works with the dataclasses. Torch-free.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from htbench.harness.errors import UsageError, nearest

# Takes what a key is called in a sentence and its value; returns the value, or raises UsageError.
Check = Callable[[str, Any], Any]


def key(check: Check | None, default: Any, help: str) -> Any:
    """A field that a file may set.

    Args:
        check: of its value; None: whoever reads the part checks it.
        default: if the file does not set it.
        help: what it means, for the config reference.
    """
    return dataclasses.field(default=default, metadata={"check": check, "help": help})


def declared(part: type) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a part that a file may set, by their keys."""
    return {field.name: field for field in dataclasses.fields(part) if "help" in field.metadata}


def read(
    part: type, tree: Mapping[str, Any], where: str, *, before: str = "", after: str = ""
) -> dict[str, Any]:
    """The keys that a part of a file sets, each checked. An empty one counts as not set.

    Args:
        part: its dataclass.
        tree: the part as written.
        where: the part in words, to follow "in".
        before: what sentences have before a key.
        after: what they have after it.

    Raises:
        UsageError: an unknown key, with the nearest one, or a value that can't be; one sentence.
    """
    fields = declared(part)
    check_names(tree, fields, where, "key")
    given = {}
    for name, value in tree.items():
        if value is not None:
            check = fields[name].metadata["check"]
            given[name] = check(f"{before}{name}{after}", value) if check else value
    return given


def check_names(names: Iterable[Any], known: Iterable[str], where: str, what: str) -> None:
    """Raise UsageError for the first name that is not known, with the nearest one."""
    known = set(known)
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown {what} '{name}' in {where}; {nearest(str(name), known)}")


# --- what a value may be ---


def whole(least: int, most: int | None = None) -> Check:
    """A whole number within bounds."""
    range_of_it = f"from {least}" + ("" if most is None else f" to {most}")

    def check(name: str, value: Any) -> Any:
        if type(value) is not int or value < least or (most is not None and value > most):
            raise UsageError(f"{name} must be a whole number {range_of_it}, not {value!r}.")
        return value

    return check


def one_of(known: Iterable[str]) -> Check:
    """One of some words."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in known:
            raise UsageError(f"{name} '{value}' is not available; {nearest(str(value), known)}")
        return value

    return check


def word(pattern: str = r"\S+", must_be: str = "a word without spaces") -> Check:
    """A word or a number that fits a pattern, as a word."""

    def check(name: str, value: Any) -> Any:
        text = str(value) if type(value) in (str, int) else ""
        if not re.fullmatch(pattern, text):
            raise UsageError(f"{name} must be {must_be}, not {value!r}.")
        return text

    return check


def kind(of: type, must_be: str) -> Check:
    """A value of a Python type."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, of):
            raise UsageError(f"{name} must be {must_be}, not {value!r}.")
        return value

    return check


mapping = kind(Mapping, "a mapping")
