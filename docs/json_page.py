"""The promise of docs/json.md: reads its tables, and holds the documents of commands against them.

`python -m docs.json_page --write` notes new fields in `tests/golden/json_fields.json`. It refuses if a field
that is noted there is gone or has another type: fields are only added.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("json.md")
NOTED = Path(__file__).parents[1] / "tests" / "golden" / "json_fields.json"
MEASUREMENT = "measurement"  # a type that is a table of its own on the page
_EMPTY = "empty"  # the type of an entry of an empty list or object
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "list"}


@dataclass(frozen=True)
class Field:
    """A field of a document: its types as the page has them, and whether it may be absent."""

    types: frozenset[str]
    may_lack: bool = False

    @property
    def words(self) -> str:
        """Its types, sorted: "integer or null"."""
        return " or ".join(sorted(self.types))

    def takes(self, kind: str) -> bool:
        """Whether a value of this type is one of it; an integer is a number."""
        return bool({kind, "any"} & self.types) or (kind == "integer" and "number" in self.types)


Fields = Mapping[str, Field]


def promised(text: str | None = None) -> dict[str, Fields]:
    """The fields of each command, by heading without `htbench`.

    Args:
        text: of the page; None: as it is.
    """
    parts = re.split(r"^##+ (.*)$", PLACE.read_text(encoding="utf-8") if text is None else text, flags=re.M)
    tables = {head: _table(part) for head, part in zip(parts[1::2], parts[2::2], strict=True)}
    inner = tables.get("A measurement", {})
    return {
        head.removeprefix("htbench "): _with_measurements(fields, inner)
        for head, fields in tables.items()
        if head.startswith("htbench ")
    }


def _table(text: str) -> dict[str, Field]:
    found = {}
    for names, types, meaning in re.findall(r"^\| (`.*?) \| (.*?) \| (.*?)\|$", text, re.MULTILINE):
        field = Field(frozenset(re.split(r", | or ", types)), "absent" in meaning)
        found |= dict.fromkeys(re.findall(r"`(.*?)`", names), field)
    return found


def _with_measurements(fields: Fields, inner: Fields) -> Fields:
    """The fields, and those of each measurement among them."""
    found: dict[str, Field] = {}
    for name, field in fields.items():
        if MEASUREMENT in field.types:
            found[name] = Field(field.types - {MEASUREMENT} | {"object"}, field.may_lack)
            lacks = "null" in field.types
            found |= {f"{name}.{own}": Field(one.types, lacks) for own, one in inner.items()}
        else:
            found[name] = field
    return found


def printed(value: Any, fields: Fields, path: str = "") -> Iterator[tuple[str, str]]:
    """The path and type of every value of a document, as the page would write them.

    Args:
        value: a document, or a part of it.
        fields: of the command.
        path: of the part.
    """
    kind = "null" if value is None else _TYPES[type(value)]
    if path in fields:
        yield path, kind
    if path in fields and "any" in fields[path].types:
        return
    if value == [] or value == {}:
        yield path + ("[]" if isinstance(value, list) else ".*"), _EMPTY
    if isinstance(value, dict):
        free = any(name.startswith(f"{path}.*".lstrip(".")) for name in fields)
        for name, own in value.items():
            yield from printed(own, fields, f"{path}.{'*' if free else name}".lstrip("."))
    elif isinstance(value, list):
        for own in value:
            yield from printed(own, fields, f"{path}[]" if path else "")
    elif path not in fields:
        yield path, kind


def wrong(command: str, document: Any, fields: Fields | None = None) -> list[str]:
    """What a document of a command has that the page does not say; empty if nothing.

    Args:
        command: a heading of the page, without `htbench`.
        document: as read from JSON.
        fields: of the command; None: as on the page.
    """
    fields = promised()[command] if fields is None else fields
    lines = []
    for path, kind in dict.fromkeys(printed(document, fields)):
        if kind == _EMPTY:
            continue
        if path not in fields:
            lines.append(f"{command}: the page lacks {path} ({kind})")
        elif not fields[path].takes(kind):
            lines.append(f"{command}: {path} is {kind}, on the page {fields[path].words}")
    return lines


def missing(command: str, *documents: Any) -> list[str]:
    """The fields that the page promises and none of these documents of a command has."""
    fields = promised()[command]
    there = {path for document in documents for path, _ in printed(document, fields)}
    return [name for name, field in fields.items() if name not in there and not field.may_lack]


def noted() -> dict[str, dict[str, str]]:
    """The fields that were promised before: command -> field -> its types in words."""
    found: dict[str, dict[str, str]] = json.loads(NOTED.read_text(encoding="utf-8"))
    return found


def broken(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Fields]) -> list[str]:
    """Which promises are broken: fields that are gone or have other types."""
    return [
        f"{command}: {name}"
        for command, fields in before.items()
        for name, types in fields.items()
        if name not in now.get(command, {}) or now[command][name].words != types
    ]


def _main() -> int:
    now = promised()
    lost = broken(noted() if NOTED.exists() else {}, now)
    if lost:
        print("Fields are only added; these are gone or changed:", *lost, sep="\n  ", file=sys.stderr)
        return 1
    plain = {command: {name: one.words for name, one in fields.items()} for command, fields in now.items()}
    text = json.dumps(plain, indent=1) + "\n"
    if sys.argv[1:] == ["--write"]:
        NOTED.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
