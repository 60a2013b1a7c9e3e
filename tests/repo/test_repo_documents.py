"""What the documents say is so: links, commands, the generated config reference, names, licences."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from docs import config_page
from htbench import models, optimizers
from htbench.harness import tasks
from htbench.harness.config.key import identity
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import declarations, resolve_config
from htbench.sweeps.spec import search
from htbench.sweeps.spec import sweep_file as spec
from htbench.sweeps.spec.keys import declared
from htbench.sweeps.spec.program import ProgramSection
from htbench.sweeps.spec.resources import Resources
from htbench.sweeps.spec.sweep import Block, SweepSpec
from tests.helpers import own_parts

ROOT = Path(__file__).parents[2]
MARKDOWN = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.md")
    if not path.relative_to(ROOT).parts[0].startswith((".", "store", "dist", "build"))
)


def read(file: Path | str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


README, PYPROJECT = read("README.md"), read("pyproject.toml")


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of a language, those within lists included."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """What `#...` may name in a Markdown file: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("file", MARKDOWN, ids=str)
def test_relative_links_lead_somewhere(file):
    for link in re.findall(r"\]\(([^)\s]+)\)", read(file)):
        if not re.match(r"[a-z]+:", link):
            place, _, anchor = link.partition("#")
            target = (ROOT / file).parent / place if place else ROOT / file
            assert target.exists(), link
            assert not anchor or anchor in anchors(read(target)), link


def test_the_tree_of_the_rooms_is_that_of_the_folders():
    tree = read("CONTRIBUTING.md").partition("## The way of a run")[0]
    told = re.findall(r"^    (?:  )?([a-z0-9_]+)/ ", tree, re.MULTILINE)
    packages = ("optimizers", "models", "harness", "sweeps", "results")
    rooms = {
        path.parent.relative_to(ROOT).as_posix()
        for package in packages
        for pattern in ("*/*.py", "*/*.yaml")
        for path in (ROOT / package).glob(pattern)
    }
    assert sorted(told) == sorted(
        [*packages, "benchmarks", "tests", *(room.partition("/")[2] for room in rooms)]
    )


def test_tests_that_a_page_names_are_there():
    named = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", read("docs/elsewhere.md"))
    assert len(named) > 10
    assert [(name, file) for name, file in named if f"\ndef {name}(" not in read(file)] == []


@pytest.mark.parametrize(("index", "ending"), [("docs/README.md", "md"), ("docs/llms.txt", "html")])
def test_an_index_of_the_documents_has_them_all(index, ending):
    """Also that for language models."""
    linked = set(re.findall(rf"\]\(([\w.-]+)\.{ending}\)", read(index)))
    assert linked == {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}


def test_the_line_mine_of_the_readme_is_a_block_without_its_first_sign(tmp_path):
    (text,) = (block for block in blocks(README, "yaml") if "name: mine" in block)
    (tmp_path / "my_opt.py").write_text(own_parts.optimizer())
    path = tmp_path / "digits-lr.yaml"
    path.write_text(re.sub(r"^#", "", text, flags=re.MULTILINE))
    assert [block.name for block in spec.load(path).blocks] == ["muon", "htmuon", "mine"]


def test_the_optimizer_of_the_readme_is_that_of_its_page():
    page = read("docs/own.md")
    assert blocks(README, "python") == blocks(page, "python")
    assert own_parts.block() in page


# --- the config reference ---


def test_the_config_reference_knows_every_part_of_a_sweep_file():
    parts = {
        SweepSpec,
        Block,
        ProgramSection,
        Resources,
        search.Range,
        search.Search,
        *search.PRUNERS.values(),
    }
    assert set(config_page.SWEEP_PARTS.values()) == parts
    assert {field.name for field in fields(Resources)} == declared(Resources).keys() | {"options"}


def test_the_column_key_says_what_the_key_covers():
    made = {"task": "pydocs", "model": "llama-nano", "steps": 1, "optimizer.name": "htmuon"}
    # At their defaults the key leaves these out: code before them acted so.
    made |= {"precision.tf32_convolutions": True, "parametrization": "mup"}
    made |= {"base_width": 24, "base_depth": 1, "base_head": 8}
    pieces = {"schedule.name": "piecewise", "schedule.at": [0.5], "schedule.factors": [0]}
    power = {"schedule.name": "power", "schedule.exponent": 1}
    covered = {
        n: x for more in (pieces, power) for n, x in flatten(identity(resolve_config(made | more))).items()
    }
    rows = re.findall(r"^\| `([\w.]+)` \|.*?\|.*?\|.*?\| (yes|no) \|", config_page.settings(), re.MULTILINE)
    assert [name for name, _ in rows] == [name for name, _ in declarations()]
    assert {name for name, answer in rows if answer == "yes"} == {name for name, _ in rows} & covered.keys()


# --- names and licences ---


def test_third_parties_are_named():
    text = read("THIRD_PARTY.md")
    first = set(re.findall(r"^\| `([\w*-]+)`", text, re.MULTILINE))
    families = {re.sub(r"-.*|\d+$", "", name) for name in models.SIZES}
    assert first == {*optimizers.ZOO, *tasks.TASKS, *(name for name in first if name.endswith("*"))}
    assert {name.rstrip("*-") for name in first if name.endswith("*")} == families
    for row in optimizers.ZOO.values():
        (line,) = re.findall(rf"^\| `{row.name}` .*$", text, re.MULTILINE)
        ours = not row.target.startswith("torch.")
        assert ("independently written" in line) == ours
