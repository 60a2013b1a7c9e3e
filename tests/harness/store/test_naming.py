"""One rule for what a word on a command line says about sweeps, in every command."""

import argparse

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import naming
from htbench.harness.store.points import SEARCH, Point, sweep_folder, write_points

FILE = "name: planned\nbase: {task: digits, model: mlp}\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A working folder with sweep files, and a store with two sweeps: one of them without a file."""
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "store"
    for name in ("planned", "foreign"):
        sweep_folder(store, name).mkdir(parents=True)
        write_points(store, name, [Point(name, "b", SEARCH, "0" * 12, {})])
    (sweep_folder(store, "planned") / "spec.yaml").write_text(FILE)
    (tmp_path / "lion.yaml").write_text(FILE)
    (tmp_path / "foreign.yaml").write_text("base: {task: digits}\n")
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "foreign.yaml").write_text("base: {task: digits}\n")
    (tmp_path / "both" / "x.yaml").write_text("base: {task: p}\nname: ${base.task}lanned\n")
    (tmp_path / "new.yaml").write_text("search: {storage: '${oc.env:NOT_SET_ANYWHERE}'}\n")
    return store


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["planned"], ["planned"]),
        (["lion.yaml"], ["planned"]),
        (["foreign"], ["foreign"]),
        (["foreign.yaml", "foreign"], ["foreign", "foreign"]),
        (["both"], ["foreign", "planned"]),
        (["store/sweeps/planned"], ["planned"]),
        (["store/sweeps/planned/spec.yaml"], ["planned"]),
        ([], []),
    ],
    ids=str,
)
def test_a_word_is_a_name_a_file_or_a_folder(root, words, names):
    assert naming.names(words, root) == names


def test_a_folder_that_is_called_like_a_sweep_but_holds_none_is_not_in_the_way(root, tmp_path):
    (tmp_path / "planned").mkdir()
    (tmp_path / "foreign").mkdir()
    assert naming.names(["planned", "foreign"], root) == ["planned", "foreign"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("forein", "Unknown table or sweep 'forein' in the store 'store'; did you mean 'foreign'?"),
        ("plane", "Unknown table or sweep 'plane' in the store 'store'; did you mean 'plan'?"),
        ("zzz", "Unknown table or sweep 'zzz' in the store 'store'; known are: foreign, plan, planned"),
        ("", "Unknown table or sweep '' in the store 'store'; known are: foreign, plan, planned"),
        (
            "none.yaml",
            "Unknown table or sweep 'none.yaml' in the store 'store'; known are: foreign, plan, planned",
        ),
        (
            "new.yaml",
            "The sweep 'new' was never planned in 'store'; `htbench sweep run new.yaml` plans and trains it.",
        ),
        (
            "demo-digits",
            "The sweep 'demo-digits' was never planned in 'store'; `htbench sweep run demo-digits` plans and "
            "trains it.",
        ),
    ],
)
def test_a_word_that_names_no_sweep_of_the_store_is_answered_in_a_sentence(root, tmp_path, word, message):
    with pytest.raises(UsageError) as error:
        naming.names([word], root.relative_to(tmp_path), {"table": ["plan"]})
    assert str(error.value) == message


def test_the_words_of_a_command_and_its_option_say_the_same(root):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=root)
    naming.add_words(parser)
    for line in ("planned --sweep foreign", "--sweep planned,foreign", "--sweep planned foreign planned"):
        args = parser.parse_intermixed_args(line.split())
        assert sorted(naming.chosen(args)) == ["foreign", "planned"]
    assert naming.chosen(parser.parse_args([])) == []
    with pytest.raises(UsageError, match="^Unknown sweep 'plan' in the store '.*'; did you mean 'planned'"):
        naming.chosen(parser.parse_args(["--sweep", "plan"]), [], {"table": ["plan"]})
