"""docs/json.md promises the fields of `--json`. Tests of the commands hold their documents against it."""

import argparse
import dataclasses
import importlib
import math
import re
from pathlib import Path
from typing import Any

import pytest

from docs import json_page
from htbench.harness.cli import COMMANDS
from htbench.harness.show.numbers import document
from tests.helpers.json_fields import read, wrong

PAGE = json_page.promised()
TESTS = Path(__file__).parents[1]


def parsers(parser, name):
    """A command's parser and those of its actions, each with its words."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, own in action.choices.items():
                yield from parsers(own, f"{name} {word}")


def own_flags(parser):
    return {word for one in parser._actions if one.help != argparse.SUPPRESS for word in one.option_strings}


def test_every_command_with_the_flag_is_on_the_page():
    found = set()
    for name, (module, _) in COMMANDS.items():
        parser = argparse.ArgumentParser()
        getattr(importlib.import_module(module), f"add_{name}_arguments")(parser)
        found |= {words for words, own in parsers(parser, name) if "--json" in own_flags(own)}
    assert found - {"judge", "ledger"} == {name for name in PAGE if " --" not in name}
    assert all(f"`htbench {name} --json`" in json_page.render() for name in ("judge", "ledger"))


def test_every_table_of_the_page_is_held_against_a_real_document():
    sources = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    assert set(re.findall(r'promised\(\s*"([a-z -]+)"', sources)) >= PAGE.keys()


def test_no_promise_is_broken():
    noted = json_page.noted()
    assert json_page.broken(noted, PAGE) == []
    assert noted == PAGE, "python -m docs.json_page --write"


def test_fields_are_only_added():
    before = {"things": {"a": "null or number", "gone": "string", "free.*": "any"}, "lost": {"x": "any"}}
    now = {"things": {"a": "integer", "free.x": "string", "new": "string"}}
    assert json_page.broken(before, now) == ["things: gone", "lost: x"]
    assert json_page.broken(before, {"things": {"a": "string"}})[0] == "things: a"


@dataclasses.dataclass
class Part:
    """A part.

    Attributes:
        x: a number.
    """

    x: float | None
    _hidden: int = 0


@dataclasses.dataclass
class Things(Part):
    """Things.

    Attributes:
        a, b: two of them,
            in two lines.
        parts: inner ones; None: not known.
        free: settings.
    """

    a: int = 0
    b: int = 0
    parts: list[Part] | None = None
    free: dict[str, Any] = dataclasses.field(default_factory=dict)


GOOD = {"x": None, "a": 1, "b": 2, "parts": [{"x": 0.5}], "free": {"c.d": [1, {}]}}


@pytest.fixture
def things(monkeypatch):
    monkeypatch.setitem(json_page.DOCUMENTS, "things", (list[Things], ""))


def test_types_and_meanings_are_those_of_the_class(things):
    rows = json_page._rows("things").splitlines()[2:]
    assert rows == [
        "| `x` | number or null | a number |",
        "| `a`, `b` | integer | two of them, in two lines |",
        "| `parts` | list or null | inner ones; null: not known |",
        "| `parts[]` | object | inner ones; null: not known |",
        "| `parts[].x` | number or null | a number |",
        "| `free.*` | any | settings |",
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"a": 1.5}, ["a is number, on the page integer"]),
        ({"a": True}, ["a is boolean, on the page integer"]),
        ({"x": 1, "parts": None}, []),
        ({"parts": [{}]}, ["parts[] lacks x"]),
        ({"new": {}}, ["new is object, on the page None"]),
    ],
)
def test_what_differs_from_the_page_is_told(things, change, told):
    assert list(wrong([GOOD | change], {field.name: field for field in json_page.fields("things")})) == told


def test_a_document_has_no_nan():
    value = {"a": [math.nan, (math.inf, 1.5)], "b": {"c": -math.inf}, "d": "NaN"}
    for in_a_line in (False, True):
        text = document(value, in_a_line=in_a_line)
        assert read(text) == {"a": [None, [None, 1.5]], "b": {"c": None}, "d": "NaN"}
        assert ("\n" in text) != in_a_line
    with pytest.raises(AssertionError, match="NaN is not JSON"):
        read("[NaN]")
