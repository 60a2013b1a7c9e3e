"""Notes: every kind that the code names has a sentence with its fields, and the sentences read as a text."""

import ast
import re

import pytest

from htbench.harness.show import note as notes
from htbench.harness.show.commands import name_store, write_command
from htbench.harness.show.note import Note, templates
from tests.helpers.architecture import PACKAGES, ROOT

DANGER = "danger_"  # the short form of another kind
# A kind for each state of a run, each reason, each figure, each mark, each routing.
FAMILIES = (
    "convert_",
    "fact_",
    "status_",
    "tally_",
    "reason_",
    "failure_",
    "shows_",
    "mark_",
    "property_",
    "guard_",
    "route_",
    "idle_",
    DANGER,
)
FIELD = re.compile(r"\{(\w+)")


def made():
    """Each place of our code that makes a note of a literal kind: the place, the kind, and its fields."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Note"
            ):
                continue
            fields = {keyword.arg for keyword in node.keywords}
            if node.args and isinstance(node.args[0], ast.Constant):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.args[0].value, fields


def test_every_note_has_a_sentence_and_gives_what_it_says():
    places = list(made())
    assert len(places) > 3
    for place, kind, fields in places:
        if kind == "text":
            assert fields == {"text"}, place
        elif kind not in templates():
            pytest.fail(f"{place}: messages.txt has no '{kind}'")
        elif None not in fields:  # `**values` may hold any of them
            assert fields >= set(FIELD.findall(templates()[kind])), f"{place}: '{kind}' needs more fields"


def test_every_sentence_is_made_somewhere():
    sources = [
        path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    ]
    words = set(re.findall(r"[\"'](\w+)[\"']", "\n".join(sources)))
    unused = [kind for kind in templates() if kind not in words and not kind.startswith(FAMILIES)]
    assert unused == []


# These stand in files of results as well, whose bytes do not depend on the place of the store.
IN_FILES = {"too_wide", "undecidable_languages", "page_no_figures"}
# What is about no store, and what is only named or asked for help.
_OF_NO_STORE = r"htbench( of| names|`| sweep`| (zoo|models|doctor|bench)\b| data prepare --help)"


def test_every_command_to_type_names_the_store():
    lacking = {
        kind
        for kind, sentence in templates().items()
        for command in re.findall(r"(?<!for )\bhtbench\b[^`]*`?", sentence)
        if "{--root}" not in command and not re.match(_OF_NO_STORE, command)
    }
    assert lacking == IN_FILES | {"status_failed"}


@pytest.mark.parametrize(
    ("root", "option"), [(None, ""), ("s", " --root s"), ("/a b/s", " --root '/a b/s'")], ids=str
)
def test_a_command_to_type_is_about_the_store_that_was_named(root, option):
    name_store(root)
    try:
        assert str(Note("end_failed", runs=2, sweeps=["a"])).endswith(f"htbench sweep retry a{option}")
        assert write_command("table", "a") == f"htbench table a{option}"
    finally:
        name_store(None)


def test_every_danger_is_the_short_form_of_a_note():
    short = [kind.removeprefix(DANGER) for kind in templates() if kind.startswith(DANGER)]
    assert [kind for kind in short if kind not in templates() and kind != "more"] == []


def test_no_kind_stands_twice():
    lines = notes._PLACE.read_text(encoding="utf-8").splitlines()
    kinds = [line.partition(":")[0] for line in lines if line and line[0] not in "# "]
    assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize(
    ("template", "fields", "sentence"),
    [
        ("{n:run|runs}", {"n": 1}, "1 run"),
        ("{n:run waits|runs wait}", {"n": 2}, "2 runs wait"),
        ("{n?it is|they are} here", {"n": 1}, "it is here"),
        ("took {t:duration}, {b:memory}", {"t": 90, "b": 2**20}, "took 90 s, 1 MiB"),
        ("{x:.2f} and {x}", {"x": 0.1234}, "0.12 and 0.1234"),
        ("{names:and}", {"names": ("a", "b", "c")}, "a, b and c"),
        ("{names:; }", {"names": ["a", "b"]}, "a; b"),
        ("{path:shell}", {"path": "a b"}, "'a b'"),
        ("x[[, {why}]].", {"why": ""}, "x."),
        ("x[[, {why}]].", {"why": "y"}, "x, y."),
        ("x[[, {n:run|runs}]].", {"n": 0}, "x."),
        ("{flag}", {"flag": True}, "true"),
    ],
)
def test_a_sentence_is_made_of_its_fields(monkeypatch, template, fields, sentence):
    monkeypatch.setattr(notes, "templates", lambda: {"kind": template})
    assert str(Note("kind", **fields)) == sentence


def test_words_of_others_are_no_template():
    assert str(notes.text("{x} [[y]]")) == "{x} [[y]]"
    assert str(Note("left_out", names=["{where}"], where="[[z]]")) == "left out: {where} ([[z]])"


def test_equal_notes_are_one():
    assert len({Note("chosen"), Note("chosen"), Note("text", text="a"), Note("text", text="a")}) == 2
    assert Note("text", text="a") != Note("text", text="b")
