"""Plain values against declared types: what fits comes in, anything else does not, and nothing raises."""

import dataclasses
from enum import Enum
from typing import Any, TypedDict

import pytest

from htbench.harness.system import typed
from htbench.harness.system.atomic import json_objects, parse_json, read_json


class Kind(str, Enum):
    A = "a"
    B = "b"


class Inner(TypedDict, total=False):
    steps: int
    limit: float | None


@dataclasses.dataclass(frozen=True)
class Outer:
    name: str
    kind: Kind
    values: dict[str, float | None]
    inner: Inner | None = None
    words: list[str] = dataclasses.field(default_factory=list)
    free: Any = None
    rest: dict[str, Any] = dataclasses.field(default_factory=dict, metadata=typed.REST)


SOUND = {"name": "n", "kind": "a", "values": {"x": 1, "y": 0.5, "z": None}}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"kind": "b", "words": ["w"], "inner": {"steps": 3, "limit": 2}},
        {"inner": None, "free": {"a": [1, {"b": None}]}},
        {"inner": {"more": [True]}},
        {"free": nested(30)},
    ],
)
def test_what_fits_is_made(change):
    made = typed.make(Outer, SOUND | change)
    assert made == Outer(**SOUND | change) and type(made.kind) is Kind


@pytest.mark.parametrize(
    "change",
    [
        *({"name": value} for value in (None, 1, True, [], {})),
        *({"kind": value} for value in ("c", None, [], {})),
        *({"values": value} for value in (None, [], {"x": "1"}, {"x": True}, {"x": {}}, {"x": [1]})),
        *({"inner": value} for value in ([], 1, {"steps": 1.5}, {"steps": True}, {"limit": "x"})),
        *({"words": value} for value in ("ab", [1], [None], {"a": "b"})),
        {"free": nested(200)},
        {"unknown": nested(200)},
    ],
)
def test_what_does_not_fit_is_nothing(change):
    assert typed.make(Outer, SOUND | change) is None


def test_an_object_with_each_field_that_has_no_default_is_wanted():
    partial = [{name: SOUND[name] for name in SOUND if name != missing} for missing in SOUND]
    assert [typed.make(Outer, value) for value in (*partial, None, 1, "x", [], [SOUND])] == [None] * 8


def test_what_this_code_does_not_know_is_kept():
    """Also a name that is that of the field which keeps it."""
    more = {"new": [1], "rest": {"a": 1}}
    assert typed.make(Outer, SOUND | more).rest == more


DEEP = b"[" * 100_000
NOT_OURS = [
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"1" * 400,
    DEEP,
    DEEP + b"]" * 100_000,
    b'"\xff"',
    b'"\\ud800"',
    b"",
    b"{",
]


@pytest.mark.parametrize("text", NOT_OURS, ids=range(len(NOT_OURS)))
def test_what_no_code_of_ours_has_written_is_no_json(tmp_path, text):
    with pytest.raises(ValueError):
        parse_json(b'{"a": ' + text + b"}")
    (tmp_path / "file.json").write_bytes(b'{"a": ' + text + b"}")
    assert read_json(tmp_path / "file.json") is None
    assert json_objects([b'{"a": 1}', b'{"a": ' + text + b"}", b'{"a": 2}']) == [{"a": 1}, {"a": 2}]


def test_words_of_any_language_and_large_numbers_are_json():
    assert parse_json('{"a": "\\ud83d\\ude00 ±", "b": 1e300, "c": 1234567890123456789}'.encode()) == {
        "a": "\U0001f600 ±",
        "b": 1e300,
        "c": 1234567890123456789,
    }
