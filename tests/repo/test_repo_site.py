"""The site: generated parts are made and used, pages are in the navigation, optimizers have cards."""

import re
from pathlib import Path

import pytest

from docs import command_page, pages, zoo_page
from htbench import optimizers
from htbench.harness.cli import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_every_generated_part_stands_on_a_page():
    assert {part for text in TEXTS.values() for part in pages.parts(text)} == pages.GENERATED.keys()


def test_a_part_that_nobody_makes_is_an_error():
    with pytest.raises(KeyError, match="settngs"):
        pages.filled("<!-- generated: settngs -->")


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"([\w/.-]+\.md)$", NAVIGATION, re.MULTILINE))
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} <= listed


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


@pytest.mark.parametrize("name", optimizers.ZOO)
def test_a_card_has_rule_settings_and_source(name):
    row, card = optimizers.ZOO[name], zoo_page.card(optimizers.ZOO[name])
    assert row.url in card and card.startswith(f"# {name}\n")
    assert all(f"| `optimizer.{param}` |" in card for param in ("lr", *row.params))
    assert "pytorch.org" in card or re.search(r"^    \w.*<- ", card, re.MULTILINE)
    assert "\nArgs:" not in card


def test_the_state_is_measured():
    assert zoo_page.state_bytes("sgdm") == 4
    assert 8 <= zoo_page.state_bytes("adamw") < 8.01


def test_a_page_is_printed_with_its_parts(capsys):
    assert pages.main(["zoo", "zoo/muon"]) == 0
    printed = capsys.readouterr().out
    assert "| [muon](zoo/muon.md) |" in printed and "\n# muon\n" in printed
