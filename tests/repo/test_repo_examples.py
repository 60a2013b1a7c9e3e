"""Every example on a page: its commands are read by the real parsers, its YAML loads, its Python runs.

An example that can't run here says why, in a line `<!-- not run: needs a GPU -->` before it.
"""

import argparse
import re
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from docs import reproduction_records as records
from htbench.harness import cli
from htbench.harness.config.names import settings_of
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.sweeps.spec import sweep_file

ROOT = Path(__file__).parents[2]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (
        *sorted((ROOT / "docs").rglob("*.md")),
        *(ROOT / name for name in ("README.md", "AGENTS.md")),
    )
]
FENCE = re.compile(r"(<!-- not run: [^>]+ -->\n+)?^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SKELETON = {
    "name": "example",
    "base": {
        "task": "digits",
        "model": "resnet-nano",
        "steps": 100,
        "batch_size": 64,
        "evaluation.every": 10,
    },
    "blocks": [{"name": "muon", "set": {"optimizer.name": "muon"}, "space": {"optimizer.lr": [0.01, 0.02]}}],
}


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def examples(page, language):
    """The fenced blocks of a language that can run here."""
    return [
        re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
        for skipped, indent, kind, text in FENCE.findall(read(page))
        if kind == language and not skipped
    ]


def with_any(language):
    return [page for page in PAGES if examples(page, language)]


# --- commands: those of blocks are read whole, those between words name what there is ---


def in_blocks(text):
    """The command lines of htbench in blocks of a page."""
    text = text.replace("\\\n", " ")
    lines = re.findall(r"^ {4}.*$", text, re.MULTILINE)
    lines += [
        line for _, _, kind, block in FENCE.findall(text) if kind == "sh" for line in block.splitlines()
    ]
    return (words(one) for line in lines for one in re.split(r"&&|;|\|", line))


def between_words(text):
    """The commands that the text names."""
    return (words(span.replace("\\|", " ")) for span in re.findall(r"`([^`\n]+)`", text))


def words(line):
    """The words of a command of htbench, before a gap and before what stands for words: "[NAME ...]"."""
    found = re.match(r"^\s*(?:\$ )?(?:time )?(?:\S*/)?htbench ((?:\S| (?! ))+)", line)
    told = shlex.split(found[1], comments=True) if found else []
    ends = [at for at, word in enumerate(told) if word.startswith(("[", "..."))]
    return told[: min(ends, default=len(told))]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_in_blocks_are_understood(page):
    for name, *rest in filter(None, in_blocks(read(page))):
        try:
            cli._command(name)[1].parse_args(rest)
        except UsageError as error:
            pytest.fail(f"htbench {shlex.join([name, *rest])}: {error}")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_between_words_name_what_there_is(page):
    for name, *rest in filter(None, between_words(read(page))):
        if name.isupper() or name in ("--help", "--version"):
            continue
        flags = {word.partition("=")[0] for word in rest if word.startswith("--")}
        known = {flag for one in _parsers(cli._command(name)[1], rest) for flag in one._option_string_actions}
        assert flags <= known, f"htbench {shlex.join([name, *rest])}: no {flags - known}"


def _parsers(parser, rest):
    """A parser and those of the actions that are named; an action that there is not ends in an error."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and rest and not rest[0].startswith("-"):
            yield from _parsers(action.choices[rest[0]], rest[1:])


def test_commands_are_found():
    text = "Say `htbench zoo --json`.\n\n    htbench runs ls      it costs\n\n"
    text += "```sh\na && .venv/bin/htbench demo\n```\n"
    assert [*filter(None, in_blocks(text))] == [["runs", "ls"], ["demo"]]
    assert [*between_words(text)] == [["zoo", "--json"]]
    assert words("htbench runs ls [SWEEP ...]") == ["runs", "ls"]


# --- YAML: a sweep, a part of one, or the settings of a run ---


def load(text, folder):
    """Load the text as what it is.

    Raises:
        UsageError: it is neither a sweep, nor a part of one, nor a config.
    """
    given = OmegaConf.to_container(OmegaConf.create(text))
    if isinstance(given, list):
        given = {"blocks": given}
    if "task" in given:
        return resolve_config(settings_of(given))
    block = {key: given.pop(key) for key in ("set", "space") if key in given}
    if "program" in given:  # its folder is this one
        (folder / "config").mkdir(exist_ok=True)
        for name in ("train.py", "config/small.py"):
            (folder / name).touch()
    spec = ({"name": "example"} if "program" in given else SKELETON) | given
    if block:
        spec["blocks"] = [SKELETON["blocks"][0] | block]
    place = folder / "example.yaml"
    place.write_text(OmegaConf.to_yaml(OmegaConf.create(spec)))
    return sweep_file.load(place)


@pytest.mark.parametrize("page", with_any("yaml"))
def test_the_yaml_of_a_page_loads(page, tmp_path):
    for text in examples(page, "yaml"):
        load(text, tmp_path)


# --- Python: one block after the other, beside a small store ---


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a store and its tables, as pages assume it."""
    folder = tmp_path_factory.mktemp("examples")
    records.unpacked(folder / "store", ["demo-digits", "demo-pydocs"])
    return folder


@pytest.mark.parametrize("page", with_any("python"))
def test_the_python_of_a_page_runs(page, place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("HTBENCH_ROOT", "store")
    assert cli.call(["table", "main_result", "--format", "parquet", "--out", "tables"]) == 0
    scope = {}
    for example in examples(page, "python"):
        exec(compile(example, page, "exec"), scope)
    if page == "docs/judge.md":  # else runs of a task without the metric would count as diverged
        assert set(scope["told"]["task"]) == {"pydocs"}


def test_what_does_not_run_says_why():
    for page in PAGES:
        for skipped, *_ in FENCE.findall(read(page)):
            assert not skipped or len(skipped.split()) > 4
