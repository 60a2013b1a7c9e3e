"""docs/json.md promises the fields of `--json`. Tests of the commands hold their documents against it."""

import argparse
import importlib
import math
import re
from pathlib import Path

import pytest

from docs import json_page
from harness.cli import COMMANDS
from harness.show.numbers import document
from tests.helpers.json_fields import read

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
    assert found - {"ledger"} == {name for name in PAGE if " --" not in name}
    assert "`htbench ledger --json`" in json_page.PLACE.read_text(encoding="utf-8")


def test_every_table_of_the_page_is_held_against_a_real_document():
    sources = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    assert set(re.findall(r'promised\(\s*"([a-z -]+)"', sources)) >= PAGE.keys()


def test_no_promise_is_broken():
    noted = json_page.noted()
    assert json_page.broken(noted, PAGE) == []
    new = [f"{name}: {field}" for name in PAGE for field in PAGE[name].keys() - noted.get(name, {}).keys()]
    assert not new, "python -m docs.json_page --write"


TEXT = """
## htbench things

| field | type | meaning |
| --- | --- | --- |
| `a`, `b` | integer or null | two of them |
| `rows[].x` | number | each |
| `rows[].took` | measurement or null | seconds |
| `free.*` | any | settings |
| `odd` | string | absent unless it is odd |

## A measurement

| field | type | meaning |
| --- | --- | --- |
| `n` | integer | values |
"""
GOOD = {"a": 1, "b": None, "rows": [{"x": 0.5, "took": {"n": 3}}], "free": {"c.d": [1, {}]}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"a": 1.5}, ["things: a is number, on the page integer or null"]),
        ({"a": True}, ["things: a is boolean, on the page integer or null"]),
        ({"rows": [{"x": 1, "took": None}]}, []),
        ({"rows": [{"x": "1", "took": {"m": 3}}]}, ["things: rows[].x is string, on the page number"]),
        ({"new": {"deep": 1}}, ["things: the page lacks new.deep (integer)"]),
    ],
)
def test_what_differs_from_the_page_is_told(change, told):
    fields = json_page.promised(TEXT)["things"]
    found = json_page.wrong("things", GOOD | change, fields)
    assert found[: len(told)] == told and bool(found) == bool(told)


def test_what_no_document_has_is_told(monkeypatch):
    fields = json_page.promised(TEXT)
    monkeypatch.setattr(json_page, "promised", lambda: fields)
    assert json_page.missing("things", [GOOD]) == []
    without = {name: value for name, value in GOOD.items() if name != "a"}
    assert json_page.missing("things", [without | {"rows": []}]) == ["a", "rows[].x", "rows[].took"]


def test_fields_are_only_added():
    fields = json_page.promised(TEXT)
    before = {"things": {"a": "integer or null", "gone": "string"}, "lost": {"x": "any"}}
    assert json_page.broken(before, fields) == ["things: gone", "lost: x"]
    assert json_page.broken({"things": {"a": "integer"}}, fields) == ["things: a"]


def test_a_document_has_no_nan():
    value = {"a": [math.nan, (math.inf, 1.5)], "b": {"c": -math.inf}, "d": "NaN"}
    for in_a_line in (False, True):
        text = document(value, in_a_line=in_a_line)
        assert read(text) == {"a": [None, [None, 1.5]], "b": {"c": None}, "d": "NaN"}
        assert ("\n" in text) != in_a_line
    with pytest.raises(AssertionError, match="NaN is not JSON"):
        read("[NaN]")
