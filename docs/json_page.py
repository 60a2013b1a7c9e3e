"""The fields of `--json` on the page `docs/json.md`, from the dataclasses that commands print.

`python -m docs.json_page --write` notes new fields in `tests/golden/json_fields.json`. It refuses if a field
that is noted there is gone or has another type: fields are only added.
"""

import dataclasses
import inspect
import itertools
import json
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from docs.config_page import table
from htbench.harness.bench import conversions, optimizers, zoo
from htbench.harness.bench.contract import PROPERTIES
from htbench.harness.bench.measured import Measured
from htbench.harness.cost.estimate import RunCost
from htbench.harness.show.note import Note
from htbench.harness.show.tidy import TableFacts
from htbench.harness.spectra.layers import LayerSpectrum
from htbench.harness.spectra.report import VALUES
from htbench.harness.store import listing
from htbench.harness.system.finding import Finding
from htbench.sweeps.screens import plan, status

NOTED = Path(__file__).parents[1] / "tests" / "golden" / "json_fields.json"


# A frame of pandas has no class: its columns are those of a layer, and where it is from.
_RUN = dict(place=str, model=str | None, optimizer=str | None, seed=int | None, step=int | None)
_Layer = TypedDict(  # type: ignore[misc]
    "_Layer",
    {
        **_RUN,
        **{
            name: str if typing.get_origin(kind) is tuple else float | None if kind is float else kind
            for name, kind in typing.get_type_hints(LayerSpectrum).items()
        },
    },
)
_Layer.__doc__ = f"""{LayerSpectrum.__doc__}
        place: the run, file or folder.
        model, optimizer, seed, step: of a run.
"""
_KINDS = {"mean": float | None, "median": float | None, "n": int, "n_excluded": int}
_GROUP = dict(place=str, kind=str)
_Means = TypedDict(  # type: ignore[misc]
    "_Means",
    _GROUP | {f"{value}_{what}": kind for what, kind in _KINDS.items() for value in VALUES},
)
_Means.__doc__ = f"""Of the layers of a group.

    Attributes:
        place, kind: a group of layers; `all` for all kinds.
        {", ".join(f"{value}_{what}" for value in VALUES for what in ("mean", "median"))}: over its layers.
        {", ".join(f"{value}_n" for value in VALUES)}: layers counted.
        {", ".join(f"{value}_n_excluded" for value in VALUES)}: layers left out.
"""


class _Spectra(TypedDict):
    """Of `htbench spectra`.

    Attributes:
        method, include, exclude: as given.
        layers: of all places.
        summary: means over groups of layers.
    """

    method: str
    include: str
    exclude: list[str]
    layers: list[_Layer]
    summary: list[_Means]


_Check = TypedDict(  # type: ignore[misc]
    "_Check", {**dict.fromkeys([*PROPERTIES, "trains"], str), "measured": Measured}
)
_Check.__doc__ = f"""Of `htbench zoo --check`.

    Attributes:
        {", ".join([*PROPERTIES, "trains"])}: what is wrong; empty: it holds.
        measured: facts.
"""

# The type of each document by the command that prints it, and what is to be known besides.
DOCUMENTS: dict[str, tuple[Any, str]] = {
    "table": (
        list[TableFacts],
        "Also `htbench table --format json`, `htbench judge --json`, `htbench ledger --json`. With "
        "`--out DIR` each is a file.",
    ),
    "sweep plan": (list[plan.PlanFacts], "An entry for each sweep."),
    "sweep status": (
        list[status.Block],
        "An entry for each block of each sweep. With `--watch` there is one document per line, again and\n"
        "again, until all is done.",
    ),
    "runs ls": (
        list[listing.Row],
        "An entry for each run, the newest first, without a limit unless `--limit` is given.",
    ),
    "zoo": (list[zoo.OptimizerFacts], "An entry for each optimizer."),
    "zoo --routing": (list[zoo.Routed], "An entry for each parameter of a model."),
    "zoo --check": (
        _Check,
        "By properties in words: what is wrong, or empty. `measured` are facts.",
    ),
    "zoo --convert": (
        list[conversions.Converted],
        "One entry, or none: nothing with these settings was run beside the other.",
    ),
    "models": (list[zoo.ModelFacts], "An entry for each model."),
    "tasks": (list[zoo.TaskFacts], "An entry for each task."),
    "doctor": (
        list[Finding],
        "With `--sbatch` a finding for each `job`. The exit status is 1 if one of them is a problem.",
    ),
    "cost": (RunCost, ""),
    "spectra": (_Spectra, "[spectra.md](spectra.md) explains the figures."),
    "bench optimizers": (optimizers.OptimizersFacts, ""),
}


class Field(NamedTuple):
    """A line of the page: a name in a document, its types as the page has them, and what it means."""

    name: str
    types: frozenset[str]
    meaning: str
    may_lack: bool = False

    @property
    def words(self) -> str:
        """Its types, sorted: "integer or null"."""
        return " or ".join(sorted(self.types))


_SCALARS = {
    **{str: "string", Path: "string", Note: "string", bool: "boolean", int: "integer", float: "number"},
    **{type(None): "null", Any: "any"},
}


def fields(command: str) -> Iterator[Field]:
    """All fields of the document of a command."""
    kind = DOCUMENTS[command][0]
    yield from _within(typing.get_args(kind)[0] if typing.get_origin(kind) is list else kind, "")


def _fields(kind: Any, path: str, meaning: str) -> Iterator[Field]:
    """A value of a type, and what is in it. The meaning of a list or of free names is that of its entries."""
    parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    words = frozenset(map(_word, parts))
    goes_on = len(parts) == 1 and words <= {"list", "object"} and not _members(kind)
    yield Field(path, words, "" if goes_on else meaning)
    for part in parts:
        yield from _within(part, path, meaning)


def _word(kind: Any) -> str:
    """The name of a type in JSON."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin = typing.get_origin(kind) or kind
    if origin is typing.Literal or issubclass(origin, Enum):
        return "string"
    return "object" if _members(kind) or issubclass(origin, Mapping) else "list"


def _within(kind: Any, path: str, meaning: str = "") -> Iterator[Field]:
    """What is in an object or a list."""
    if members := _members(kind):
        lacking = getattr(kind, "__optional_keys__", ())
        for name, (own, means) in members.items():
            first, *rest = _fields(own, f"{path}.{name}".lstrip("."), means)
            yield from (first._replace(may_lack=name in lacking), *rest)
    elif _word(kind) == "object":
        yield from _fields(typing.get_args(kind)[1], f"{path}.*".lstrip("."), meaning)
    elif _word(kind) == "list":
        yield from _fields(typing.get_args(kind)[0], f"{path}[]", meaning)


def _members(kind: Any) -> dict[str, tuple[Any, str]]:
    """The public fields of a dataclass or a TypedDict: the type of each, and what it means."""
    if not dataclasses.is_dataclass(kind) and not typing.is_typeddict(kind):
        return {}
    helped = {
        name: field.metadata.get("help") for name, field in getattr(kind, "__dataclass_fields__", {}).items()
    }
    meanings = described(kind)
    return {
        name: (own, helped.get(name) or meanings[name])
        for name, own in typing.get_type_hints(kind).items()
        if not name.startswith("_")
    }


def described(kind: Any) -> dict[str, str]:
    """The meaning of each field of a class, as the attributes of its docstring and of its bases have it."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)", attributes, re.MULTILINE):
            meanings |= dict.fromkeys(names.split(", "), _on_the_page(text))
    return meanings


def _on_the_page(text: str) -> str:
    return re.sub(r"\bNone\b", "null", " ".join(text.split()).removesuffix("."))


def render() -> str:
    """A section for each command, as Markdown."""
    parts = []
    for command, (kind, intro) in DOCUMENTS.items():
        shape = "A list." if typing.get_origin(kind) is list else "One object."
        parts += [f"## htbench {command}", f"{shape} {intro}".strip(), _rows(command)]
    return "\n\n".join(parts)


def _rows(command: str) -> str:
    """The table of a document: fields beside each other that are alike share a line."""
    told = [field for field in fields(command) if field.meaning or not field.types <= {"list", "object"}]
    alike = itertools.groupby(told, lambda field: field[1:])
    return table(
        ("field", "type", "meaning"),
        (
            (
                ", ".join(f"`{field.name}`" for field in group),
                " or ".join(sorted(kinds, key=lambda kind: (kind == "null", kind))),
                "absent where there is none: " * may_lack + meaning,
            )
            for (kinds, meaning, may_lack), group in alike
        ),
    )


def promised() -> dict[str, dict[str, str]]:
    """The fields of each command with their types in words."""
    return {command: {field.name: field.words for field in fields(command)} for command in DOCUMENTS}


def noted() -> dict[str, dict[str, str]]:
    """Those that were promised before."""
    before: dict[str, dict[str, str]] = json.loads(NOTED.read_text(encoding="utf-8"))
    return before


def broken(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Which promises are broken: fields that are gone or may have other types than before."""
    return [
        f"{command}: {name}"
        for command, promises in before.items()
        for name, words in promises.items()
        if not _is_kept(name, words, now.get(command, {}))
    ]


def _is_kept(name: str, words: str, now: Mapping[str, str]) -> bool:
    """Whether a field is there and each of its types was one before; free names may have become fields."""
    if name not in now:
        return name.split(".")[-1] == "*" and any(other.startswith(name[:-1]) for other in now)
    before, kinds = set(words.split(" or ")), set(now[name].split(" or "))
    return "any" in before or kinds <= before | ({"integer"} if "number" in before else set())


def _main() -> int:
    now = promised()
    if lost := broken(noted(), now):
        print("Fields are only added; these are gone or changed:", *lost, sep="\n  ", file=sys.stderr)
        return 1
    if sys.argv[1:] == ["--write"]:
        NOTED.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
