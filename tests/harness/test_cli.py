"""The command as people meet it: a mistake is one sentence and exit status 2, with nothing left behind."""

import contextlib
import re

import pytest

from htbench.harness import cli
from htbench.harness.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_RUN_FAILED,
    EXIT_USAGE,
    LostOwnershipError,
    RunFailedError,
    StoppedError,
    UsageError,
)
from htbench.harness.parallel.joining import place

RUN = ["run", "task=digits", "model=resnet-nano", "steps=2", "batch_size=16"]
SPEC = "base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16}\nreplicate: {seeds: 1}\n"


def sentence(capsys):
    """The one line on stderr."""
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "Traceback" not in err
    return err


def test_the_first_screen_begins_with_what_a_newcomer_needs(capsys):
    assert cli.main(["--help"]) == 0
    screen = capsys.readouterr().out
    first, others = (re.findall(r"^  (\w+)  ", part, re.M) for part in screen.split("The paper"))
    assert first == "demo run compare sweep table report judge".split()
    assert {*first, *others} == {*cli.COMMANDS}
    assert max(map(len, screen.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["swep"], "'swep'.*'sweep'"),
        ([*RUN, "optimizer.name=muno"], "'muno'.*muon"),
        ([*RUN, "optimizer.lr=abc"], "optimizer.lr.*'abc'"),
        ([*RUN, "optimizer.lr=-1"], "optimizer.lr.*-1"),
        ([*RUN, "optimizer.name=htmuon", "optimizer.p=1.5"], r"p .*1\.5"),
        ([*RUN, "stepps=3"], "'stepps'.*'steps'"),
        ([*RUN, "steps"], "no file 'steps'"),
        (["run", "missing.yaml"], "no file 'missing.yaml'"),
        (["run", "a.yaml", "b.yaml"], "One config file"),
        (["sweep", "run", "missing.yaml"], "'missing.yaml'.*demo-digits"),
        (["sweep", "run", "steps=3"], "at least one sweep"),
        (["sweep", "run", "demo-digits", "--workers", "0"], "--workers.*0"),
        (["table", "main_resul"], "main_resul.*main_result"),
        (["figure", "lr_curv"], "lr_curv.*lr_curve"),
        (["table"], "store"),
        (["table", "--formt", "md"], "--formt.*htbench table --help"),
        (["sweep", "paln", "demo-digits"], "'paln'.*'plan'"),
        (["sweep", "run", ""], "at least one sweep"),
        (["run", "optimizer=muon", "steps=2"], "group of settings, such as optimizer.name"),
        (["run", "lr=1"], "did you mean 'optimizer.lr'"),
        (["run", "qqqq=1"], "none of the .* docs/config.md"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_sentence(tmp_path, capsys, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*words, "--root", str(tmp_path / "store")] if words != ["swep"] else words) == EXIT_USAGE
    assert re.search(expected, sentence(capsys))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SPEC + "blocks: [{name: a, set: {optimizer.name: htmuno}}]", "htmuno.*htmuon"),
        (SPEC + "blockss: []", "'blockss'.*'blocks'"),
        (SPEC + "space: {optimizer.lr: [abc]}", "'abc'"),
        (SPEC + "space: {optimizer.lr: [-0.1]}", r"-0\.1"),
        (SPEC + "space: {optimizer.lr: []}", "no values"),
        (SPEC + "blocks: [{set: {optimizer.name: htmuon}, space: {optimizer.p: [1.5]}}]", r"1\.5"),
        ("base: [", "not valid YAML"),
    ],
    ids=str,
)
def test_a_mistake_in_a_sweep_file_is_one_sentence(tmp_path, capsys, write_spec, text, expected):
    assert cli.main(["sweep", "plan", str(write_spec(text)), "--root", str(tmp_path / "store")]) == EXIT_USAGE
    assert re.search(expected, sentence(capsys))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("action", ["run", "status", "replicate"])
def test_every_action_refuses_a_sweep_file_with_a_mistake(tmp_path, capsys, write_spec, action):
    path = write_spec(SPEC + "blockss: []")
    assert cli.main(["sweep", action, str(path), "--root", str(tmp_path / "store")]) == EXIT_USAGE
    assert re.search("'blockss'.*'blocks'", sentence(capsys))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("seeds", "warned"), [(0, False), (1, True), (2, True), (3, False)])
def test_fresh_seeds_that_give_no_verdict_are_told_before_a_run(tmp_path, capsys, write_spec, seeds, warned):
    path = write_spec(SPEC.replace("seeds: 1", f"seeds: {seeds}"))
    assert cli.main(["sweep", "plan", str(path), "--no-measure", "--root", str(tmp_path)]) == 0
    said = f"replicate: {{seeds: {seeds}}} gives numbers and no verdict, which takes 3 fresh seeds"
    assert (said in capsys.readouterr().err) == warned


def test_the_next_command_is_about_the_store_that_was_named(tmp_path, capsys, monkeypatch):
    words, root = ["sweep", "status", "demo-digits"], str(tmp_path / "a store")
    following = "next: htbench sweep run demo-digits"
    assert cli.main([*words, "--root", root]) == 0
    told = capsys.readouterr().out
    assert told.endswith(f"{following} --root '{root}'\n")
    assert cli.main(["sweep", "--root", root, "status", "--json", "demo-digits"]) == 0
    assert f"{following[6:]} --root '{root}'" in capsys.readouterr().out
    monkeypatch.setenv("HTBENCH_ROOT", root)  # the next command has it as well
    for same in (words, [*words, "--root", root]):
        assert cli.main(same) == 0
        assert capsys.readouterr().out.endswith(f"{following}\n")


@pytest.mark.parametrize(
    "words", [["table", "lr2"], ["report", "lr2"], ["sweep", "status", "lr2"]], ids=" ".join
)
def test_a_sweep_that_is_not_there_is_answered_with_the_store_that_was_looked_in(tmp_path, capsys, words):
    root = tmp_path / "store"
    assert cli.main([*words, "--root", str(root)]) == EXIT_USAGE
    assert f"there is no store '{root}'" in sentence(capsys)
    root.mkdir()
    assert cli.main([*words, "--root", str(root)]) == EXIT_USAGE
    assert f"in the store '{root}'" in sentence(capsys)


def test_a_sweep_file_is_no_run(capsys, write_spec):
    path = write_spec(SPEC)
    assert cli.main(["run", str(path)]) == EXIT_USAGE
    assert f"htbench sweep run {path}" in sentence(capsys)


def test_a_file_is_no_store(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for words in (["sweep", "plan", "demo-digits"], ["table"], ["runs", "ls"]):
        assert cli.main([*words, "--root", str(tmp_path / "file")]) == EXIT_USAGE
        assert "must name a folder" in sentence(capsys)


@pytest.mark.parametrize("folder", [".", "runs", "sweeps"])
def test_a_store_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path, capsys, monkeypatch, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    shut = (tmp_path / folder).resolve()
    monkeypatch.setattr("os.access", lambda path, mode: path.resolve() != shut)  # root may read everything
    for words in (["runs", "ls"], ["runs", "gc"], ["table"]):
        assert cli.main([*words, "--root", str(tmp_path)]) == EXIT_USAGE
        assert "can't be read" in sentence(capsys)


def test_a_number_in_words_is_a_number(tmp_path, write_spec, capsys):
    path = write_spec(SPEC + 'space: {optimizer.lr: ["1e-3"]}')
    assert cli.main(["sweep", "plan", str(path), "--no-measure", "--root", str(tmp_path / "store")]) == 0
    assert "1 run" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["sweep", "run", "demo-digits"], RUN, ["demo"]], ids=" ".join)
def test_an_unwritable_root_is_one_sentence(tmp_path, capsys, words):
    (tmp_path / "file").write_text("")
    assert cli.main([*words, "--root", str(tmp_path / "file" / "store")]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert "can't be made" in err and "choose another place" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RunFailedError("it failed"), EXIT_RUN_FAILED),
        (LostOwnershipError("it was taken over"), EXIT_RUN_FAILED),
        (StoppedError("it stopped."), EXIT_INTERRUPTED),
        (KeyboardInterrupt(), EXIT_INTERRUPTED),
        (OSError(28, "No space left on device", "/x/y"), EXIT_RUN_FAILED),
        (ZeroDivisionError(), EXIT_BUG),
    ],
    ids=str,
)
def test_every_trouble_has_its_exit_status(monkeypatch, capsys, error, status):
    def fail(args):
        raise error

    monkeypatch.setattr("htbench.harness.commands.zoo.zoo", fail)
    assert cli.main(["zoo"]) == status
    assert ("Traceback" in capsys.readouterr().err) == (status == EXIT_BUG)


@pytest.mark.parametrize("error", [RunFailedError, LostOwnershipError, StoppedError, UsageError])
@pytest.mark.parametrize("rank", [0, 1])
def test_of_several_processes_one_tells_what_ended_all(tmp_path, monkeypatch, capsys, error, rank):
    def fail(*given):
        raise error("it ended")

    monkeypatch.setattr(
        "htbench.harness.commands.run.joined", lambda is_stopped: contextlib.nullcontext(place())
    )
    monkeypatch.setattr("htbench.harness.train.run.check_processes", lambda *given: None)
    monkeypatch.setattr("htbench.harness.train.run.run", fail)
    words = {"WORLD_SIZE": "2", "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    assert cli.main([*RUN, "--root", str(tmp_path)]) != 0
    assert capsys.readouterr().err.count("it ended") == (rank == 0)


def test_a_run_from_the_command_line(htbench):
    done = htbench(*RUN, "optimizer.name=sgdm")
    assert done.returncode == 0 and "completed after 2 steps" in done.stdout and "val_accuracy" in done.stdout
    again = htbench(*RUN, "optimizer.name=sgdm")
    assert again.stdout == done.stdout
