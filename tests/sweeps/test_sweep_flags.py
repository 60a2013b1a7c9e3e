"""The flags of `htbench sweep`: each action has its own help, refuses others' flags, and can be quiet."""

import json
import re

import pytest

from htbench.harness import cli
from htbench.harness.errors import EXIT_USAGE
from htbench.sweeps.commands import ACTIONS

OWNERS = {
    flag: [name for name, other in ACTIONS.items() if flag in other.flags]
    for action in ACTIONS.values()
    for flag in action.flags
}
SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 4, batch_size: 16}
blocks: [{name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}]
"""


@pytest.mark.parametrize("action", ACTIONS)
def test_the_help_of_an_action_has_its_own_flags_only(capsys, action):
    assert cli.main(["sweep", action, "--help"]) == 0
    shown = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert shown >= {flag for flag, owners in OWNERS.items() if action in owners}
    assert not shown & {flag for flag, owners in OWNERS.items() if action not in owners}


@pytest.mark.parametrize("flag", OWNERS)
@pytest.mark.parametrize("action", ["plan", "run"])
def test_a_flag_of_another_action_is_refused_in_one_sentence(capsys, action, flag):
    if action in OWNERS[flag]:
        return
    assert cli.main(["sweep", action, "demo-digits", flag, "1"]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and flag in err


def test_the_plan_begins_with_its_summary_and_has_points_if_wanted(tmp_path, write_spec, capsys):
    words = ["sweep", "plan", str(write_spec(SPEC)), "--no-measure", "--root", str(tmp_path / "store")]
    assert cli.main(words) == 0
    summary = capsys.readouterr().out
    assert summary.startswith("tiny: 2 to run; 2 runs, 0 finished\n") and "lr=0.03" not in summary
    assert cli.main([*words, "--points"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(summary) and out.count("waiting") == 2 and "lr=0.03" in out
    assert cli.main([*words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)[0]["points"]) == 2


def test_words_may_follow_flags_and_the_root_may_come_first(tmp_path, write_spec, capsys):
    spec = str(write_spec(SPEC))
    assert not cli.main(["sweep", "--root", str(tmp_path), "plan", "--json", spec, "--no-measure", "steps=7"])
    assert {point["overrides"]["steps"] for point in json.loads(capsys.readouterr().out)[0]["points"]} == {7}


def test_cancel_without_slurm_says_so(tmp_path, write_spec, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["sweep", "cancel", str(write_spec(SPEC)), "--root", str(tmp_path)]) == EXIT_USAGE
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "no 'scancel' on the PATH" in err


def test_quiet_shows_results_and_errors_only(htbench, write_spec):
    spec = write_spec(SPEC)
    done = htbench("sweep", "run", spec, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2/2 runs")
    done = htbench("run", "--quiet", "task=digits", "model=resnet-nano", "steps=2", "batch_size=16")
    assert (done.returncode, done.stderr) == (0, "") and "completed after 2 steps" in done.stdout


@pytest.mark.slow
def test_progress_and_status_survive_an_ascii_terminal(htbench, write_spec):
    spec = write_spec(SPEC.replace("name: tiny", "name: äöü").replace("name: sgdm,", "name: größer,"))
    for words in (["plan", "--points"], ["run"], ["status"]):
        done = htbench("sweep", *words, spec, PYTHONIOENCODING="ascii")
        assert done.returncode == 0 and "gr??er" in done.stdout, done.stderr
    words = ["task=digits", "model=resnet-nano", "steps=2", "batch_size=16", "replica=ö"]
    done = htbench("run", *words, PYTHONIOENCODING="ascii:strict")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "--workers", "0"], "--workers must be at least 1, not 0."),
        (["status", "--every", "0"], "--every must be above 0 seconds, not 0."),
        (["run", "--workers", "two"], "invalid int value"),
    ],
)
def test_a_number_that_can_not_be_is_one_sentence(capsys, words, sentence):
    assert cli.main(["sweep", *words, "demo-digits"]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and sentence in err
