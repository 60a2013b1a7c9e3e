"""What may happen to a file of a store: bytes and lines are lost, values change, names are dropped."""

import json
import re

from hypothesis import strategies as st

_DEEP = "[" * 100_000
_TEXTS = ("NaN", "-Infinity", "1e999", "9" * 400, '"\\ud800"', _DEEP, _DEEP + "]" * 100_000, '{"a":' * 50_000)
_VALUES = (
    *(None, True, False, 0, 1, -1, 0.5, -1e308, 1e308, 2**70),
    *("", "x", "1", "nan", "../../x", "\x1b[31m", "2026-01-01", "not/importable:Task"),
    *([], {}, [1], ["x"], [None], {"x": 1}, {"a": {"b": [1]}}),
)
_MARK = "the place of what is no JSON"


def _places(value, way=()):
    """The way to every value within a value."""
    yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from _places(one, (*way, name))


def _with(value, way, change):
    """The value with `change(container, name)` made at the end of a way."""
    holder = {"whole": value}
    inner, way = holder, ("whole", *way)
    for name in way[:-1]:
        inner = inner[name]
    change(inner, way[-1])
    return holder.get("whole")


@st.composite
def json_text(draw, text):
    """Another JSON text, or nearly one: a value is replaced, dropped, or has a new neighbour."""
    value = json.loads(text)
    way = draw(st.sampled_from(list(_places(value))))
    kind = draw(st.sampled_from(("value", "value", "value", "text", "drop", "add")))
    if kind == "drop" and way:
        return json.dumps(_with(value, way, lambda inner, name: inner.pop(name))).encode()
    if kind == "add":
        return json.dumps(
            _with(value, way, lambda inner, name: inner.__setitem__(name, {"new": inner[name]}))
        ).encode()
    if kind == "text":
        given = json.dumps(_with(value, way, lambda inner, name: inner.__setitem__(name, _MARK)))
        return given.replace(json.dumps(_MARK), draw(st.sampled_from(_TEXTS))).encode()
    new = draw(st.sampled_from(_VALUES))
    return json.dumps(_with(value, way, lambda inner, name: inner.__setitem__(name, new))).encode()


@st.composite
def json_lines(draw, text):
    """Other lines: one is lost, doubled, of another kind, or another JSON text."""
    lines = text.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    kind = draw(st.sampled_from(("value", "value", "value", "drop", "double", "odd")))
    new = {
        "drop": [],
        "double": [lines[at]] * 2,
        "odd": [
            lines[at],
            draw(st.sampled_from((b"3", b"null", b"[]", b"{}", b'"x"', b"\xff", _DEEP.encode()))),
        ],
    }.get(kind) or ([] if kind == "drop" else [draw(json_text(lines[at]))])
    return b"".join(line + b"\n" for line in (*lines[:at], *new, *lines[at + 1 :]))


@st.composite
def any_bytes(draw, data):
    """The file cut, with a hole, a flipped bit, zeros, or bytes that are no text; or empty."""
    at = draw(st.integers(0, max(0, len(data) - 1)))
    long = draw(st.integers(1, 40))
    flipped = bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) if data else b""
    kinds = {
        "cut": data[:at],
        "hole": data[:at] + data[at + long :],
        "flip": data[:at] + flipped + data[at + 1 :],
        "zeros": data[:at] + b"\0" * long + data[at + long :],
        "no text": data[:at] + b"\xff\xfe" + data[at:],
        "empty": b"",
        "deep": _DEEP.encode(),
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]


def mutated(path):
    """Other contents of a file, most of them close to what a program might write."""
    data = path.read_bytes()
    kinds = [any_bytes(data)]
    if data and path.suffix == ".json":
        kinds += [json_text(data)] * 3
    if data and path.suffix in (".jsonl", ".journal"):
        kinds += [json_lines(data)] * 3
    return st.one_of(kinds).map(Content)


class Content(bytes):
    """Bytes that a report of a failure shows in one line."""

    def __repr__(self):
        runs = re.sub(rb"(\[{9}|\]{9}|9{9})+", lambda found: found[0][:3] + b"...", self)
        return repr(bytes(runs[:2000]))
