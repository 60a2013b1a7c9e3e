"""A note: a fact that a person should know, as its kind and its values; a sentence when it is shown.

`messages.txt` has a sentence for each kind. In it

    {name}                    a value, as in a YAML file; several with commas
    {name:.2f}                a number in Python's format
    {name:duration}           in a unit: duration, clock, memory, count, core, GPU, percent
    {name:run|runs}           a number and what it counts: 1 run, 2 runs
    {name?it waits|they wait} one of two words, as the number is 1 or not
    {name:and}, {name:or}     several words: a, b and c
    {name:; }                 several words, with this between them
    {name:shell}              quoted for a shell
    {name:danger}             the short form of another note
    {--root}                  the store of a command to type, if this process was told one
    [[ ... ]]                 left out where a value in it is missing, empty, False or 0

No code reads such a sentence: who needs the fact looks at the kind and the fields.

A kind with a second sentence, `danger_<kind>`, protects from a false conclusion: screens show this short line
where they have no room for the first. Other kinds only explain.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from htbench.harness.show.commands import store_option
from htbench.harness.show.numbers import (
    clock,
    count,
    counted,
    duration,
    listing,
    memory,
    setting,
    worked,
)

_PLACE = Path(__file__).with_name("messages.txt")
_FIELD = re.compile(r"\{(\w+)(?:\?([^{}]*)|:([^{}]*))?\}")
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_UNITS: dict[str, Callable[[Any], str]] = {
    "duration": duration,
    "clock": clock,
    "memory": memory,
    "count": count,
    "core": lambda hours: worked(hours, "core"),
    "GPU": lambda hours: worked(hours, "GPU"),
    "percent": lambda value: f"{value:.0%}",
    "shell": lambda value: shlex.quote(str(value)),
    "danger": lambda value: str(value.danger()),
}


class Note:
    """A fact with the kind of sentence that tells it. Equal notes are one: tables give them one letter.

    Args:
        kind: of `messages.txt`; "text" has one field `text`, for words that are not ours.
        fields: plain values, or several of them.
    """

    __slots__ = ("fields", "kind")

    def __init__(self, kind: str, /, **fields: Any) -> None:
        self.kind = kind
        self.fields: Mapping[str, Any] = fields

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Note) and (self.kind, self.fields) == (other.kind, other.fields)

    def __hash__(self) -> int:
        return hash((self.kind, *self.fields))

    def __repr__(self) -> str:
        return f"Note({', '.join([repr(self.kind), *(f'{k}={v!r}' for k, v in self.fields.items())])})"

    def danger(self) -> Note | None:
        """The fact in short if it protects from a false conclusion, with the fields it needs; else None."""
        kind = f"danger_{self.kind}"
        if kind not in templates():
            return None
        needed = {name for name, _, _ in _FIELD.findall(templates()[kind])} & self.fields.keys()
        return Note(kind, **{name: self.fields[name] for name in self.fields if name in needed})

    def __str__(self) -> str:
        fields = self.fields
        if self.kind == "text":
            return str(fields["text"])

        def fill_optional(match: re.Match[str]) -> str:
            return match[1] if all(fields.get(name) for name, _, _ in _FIELD.findall(match[1])) else ""

        template = _OPTIONAL.sub(fill_optional, templates()[self.kind])
        sentence = _FIELD.sub(lambda match: _format_value(fields[match[1]], match[2], match[3]), template)
        return sentence.replace("{--root}", store_option())


def text(value: str) -> Note:
    """A note in words that are not ours, such as the message of an exception."""
    return Note("text", text=value)


@functools.cache
def templates() -> dict[str, str]:
    """The sentence of each kind. A line that is indented goes on with the sentence above it."""
    kinds: dict[str, str] = {}
    kind = ""
    for line in _PLACE.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            kinds[kind] += " " + line.strip()
        else:
            kind, _, sentence = line.partition(": ")
            kinds[kind] = sentence.strip()
    return kinds


def _format_value(value: Any, choice: str | None, spec: str | None) -> str:
    if choice is not None:
        singular, _, plural = choice.partition("|")
        return singular if value == 1 else plural
    if spec is None:
        return ", ".join(map(setting, value)) if isinstance(value, list | tuple) else setting(value)
    if spec in _UNITS:
        return _UNITS[spec](value)
    if spec in ("and", "or"):
        return listing([setting(word) for word in value], spec)
    if isinstance(value, list | tuple):
        return spec.join(map(str, value))
    if "|" in spec:
        singular, _, plural = spec.partition("|")
        return counted(value, singular, plural)
    return format(value, spec)
