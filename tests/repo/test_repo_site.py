"""The pages: generated parts are fresh, people write few words, all are in the navigation of the site."""

import re
from pathlib import Path

import pytest

from docs import command_page, pages, zoo_page
from docs.reproduction_page import BEGIN
from htbench import optimizers
from htbench.harness.cli import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
WITH_PARTS = [
    path.relative_to(DOCS).with_suffix("").as_posix()
    for path in sorted(DOCS.rglob("*.md"))
    if pages.parts(path.read_text(encoding="utf-8"))
]
MOST_WORDS = 30_000  # written by hand; who writes more cuts as much elsewhere
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_every_generated_part_stands_on_a_page():
    assert {part for text in TEXTS.values() for part in pages.parts(text)} == pages.GENERATED.keys()


def test_a_part_that_nobody_makes_is_an_error():
    with pytest.raises(KeyError, match="settngs"):
        pages.filled("<!-- generated: settngs -->\n<!-- end -->")


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"([\w/.-]+\.md)$", NAVIGATION, re.MULTILINE))
    every = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert {name for name in every if not name.startswith("zoo/")} <= listed


@pytest.mark.parametrize("name", [*WITH_PARTS, *(f"zoo/{name}" for name in optimizers.ZOO)])
def test_a_page_is_what_the_code_says(name):
    ((place, text),) = pages.made([name])
    assert place.read_text(encoding="utf-8") == text, "python -m docs.pages --write"


def test_the_cards_are_those_of_the_zoo():
    assert {path.stem for path in (DOCS / "zoo").iterdir()} == set(optimizers.ZOO)


def words(texts):
    return sum(len(text.split()) for text in texts)


def test_people_write_few_words():
    every = {
        path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md") if path.parent.name != "zoo"
    }
    written = words(pages.without_parts(text).partition(BEGIN)[0] for text in every.values())
    print(f"written by hand: {written:,} words; made by programs: {words(every.values()) - written:,}")
    assert written <= MOST_WORDS


def test_the_command_line_has_every_argument_of_every_command():
    page = command_page.render()
    for parser in command_page.parsers():
        section = page.partition(f"## {parser.prog}\n")[2].partition("\n## ")[0]
        told = [action for action in parser._actions if command_page._is_told(action)]
        assert section.count("\n| `") == len(told)
        assert all(word in section for action in told for word in action.option_strings)
    assert {f"htbench {name}" for name in COMMANDS} <= set(
        re.findall(r"^## (htbench \w+)$", page, re.MULTILINE)
    )


def test_the_state_is_measured():
    assert zoo_page.state_bytes("sgdm") == 4
    assert 8 <= zoo_page.state_bytes("adamw") < 8.01


def test_what_is_stale_is_named(monkeypatch, capsys, tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "some.md"
    page.write_text("# T\n\n<!-- generated: settings -->\nold\n<!-- end -->\n\nMine.\n")
    monkeypatch.setattr(pages, "FOLDER", page.parent)
    assert pages.main(["some"]) == 0 and capsys.readouterr().out == "docs/some.md\n"
    assert "\nold\n" in page.read_text()
    assert pages.main(["--write", "some"]) == 0 and capsys.readouterr().out
    text = page.read_text()
    assert "| `steps` |" in text and "\nold\n" not in text and text.endswith("Mine.\n")
    assert pages.main(["some"]) == 0 and not capsys.readouterr().out
