"""`htbench downstream`: what is evaluated, what is kept, and what is said if it can't be."""

import dataclasses
import importlib.util
import json

import pytest

from harness import cli
from harness.export import cloze, evaluation_harness
from harness.store import Store
from tests.helpers import nano_models
from tests.helpers.documents import documents
from tests.helpers.json_fields import promised


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    return Store(root), nano_models.train(root, "llama-nano", steps=2)


@pytest.fixture
def command(trained, monkeypatch, capsys):
    """The command with quick questions on a run without figures; returns status, output and messages."""
    store, key = trained
    lines = cloze._as_lines(cloze.make(documents(9), []))
    monkeypatch.setattr(cloze, "_fill", lambda folder: (folder / cloze.QUESTIONS).write_text(lines))
    store.amend(key, lambda record: dataclasses.replace(record, downstream={}))

    def run(*words):
        status = cli.main(["downstream", "--root", str(store.root), *words])
        return (status, *capsys.readouterr())

    return run


def kept(trained):
    store, key = trained
    return store.record(key).downstream


def test_the_cloze_task_is_scored_and_kept(trained, command):
    status, out, _ = command(trained[1][:6])
    assert status == 0 and "pydocs_cloze" in out and "standard error over questions" in out
    entry = kept(trained)["pydocs_cloze"]
    asked = len(cloze.make(documents(9), []))
    assert entry["questions"] == asked and entry["limit"] is None and entry["scorer"] == "htbench"
    assert 0 <= entry["acc"] <= 1 and 0 < entry["acc_norm_stderr"] < 0.2 and len(entry["fingerprint"]) == 16
    assert Store(trained[0].root).records([trained[1]])[trained[1]].downstream == kept(trained)


def test_what_is_done_is_not_done_again(trained, command, monkeypatch):
    store, key = trained
    done = {"pydocs_cloze": {"acc": 0.125, "limit": None, "questions": 9, "scorer": "mine"}}
    store.amend(key, lambda record: dataclasses.replace(record, downstream=done))
    assert "12.50" in command(key)[1] and "12.50" in command(key, "--limit", "3")[1]
    assert kept(trained) == done
    command(key, "--again")
    assert kept(trained)["pydocs_cloze"]["scorer"] == "htbench"


def test_the_first_questions_are_marked_and_make_way_for_all(trained, command):
    key = trained[1]
    assert "first 3" in command(key, "--limit", "3")[1]
    assert kept(trained)["pydocs_cloze"]["limit"] == 3
    command(key)
    assert kept(trained)["pydocs_cloze"]["limit"] is None


def test_json_has_all_that_is_kept(trained, command):
    status, out, _ = command(trained[1], "--json")
    assert status == 0 and json.loads(out) == {"tasks": kept(trained), "average_of_seven": None}
    promised("downstream", json.loads(out))


def test_a_missing_extra_is_one_sentence(trained, command, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    status, out, err = command(trained[1], "--tasks", "arc_easy")
    assert (status, out) == (2, "")
    assert err == "htbench: lm_eval is not installed; `pip install 'htbench[eval]'` brings it.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "0"], "--limit must be at least 1"),
        (["--batch-size", "0"], "--batch-size must be at least 1"),
        (["--tasks", ","], "--tasks names no task"),
        (["--device", "tpu"], "invalid choice"),
    ],
)
def test_wrong_words_are_told(trained, command, words, said):
    status, _, err = command(trained[1], *words)
    assert status == 2 and said in err


def test_only_a_completed_run_is_evaluated(trained, command):
    store, key = trained
    other = dataclasses.replace(store.record(key), key="b" * 12, status="diverged")
    store.run_folder(other.key).mkdir(parents=True)
    store.write_record(other)
    assert "is diverged; only the model of a completed run" in command("bbbb")[2]
    assert "KEY is missing" in command()[2]


def test_tasks_are_known_before_any_is_evaluated(trained, command, monkeypatch):
    monkeypatch.setattr(evaluation_harness, "load", lambda name, include: cli.main([]))  # never a task
    done = []
    monkeypatch.setattr("harness.export.downstream._cloze", lambda *_: done.append(1))

    def refuse(name, include):
        raise evaluation_harness.UsageError(f"no {name}")

    monkeypatch.setattr(evaluation_harness, "load", refuse)
    assert "no piqa" in command(trained[1], "--tasks", "pydocs_cloze,piqa")[2] and not done


def test_the_task_is_written_for_the_harness(command, tmp_path):
    status, out, _ = command("--write-task", str(tmp_path / "task"))
    assert status == 0 and "--include_path" in out
    assert {path.name for path in (tmp_path / "task").iterdir()} == {cloze.QUESTIONS, cloze.YAML}
    _, out, _ = command("--write-task", str(tmp_path / "task"), "--json")
    promised("downstream --write-task", json.loads(out))
