"""Sweeps of a program that is not ours, through the command: run, killed, resumed, shown, refused."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest

from htbench.harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, EXIT_USAGE
from htbench.harness.store import Store, curve
from htbench.harness.store.points import read_points
from htbench.results.compare.to_target import read_seeds
from tests.helpers.command import Htbench
from tests.helpers.sweeping import check_whole, results
from tests.helpers.toy_program import SPEC, TRAIN
from tests.helpers.waiting import wait_for


@pytest.fixture
def write(tmp_path):
    """Writes the program and its sweep file."""

    def written(spec=SPEC, code=TRAIN):
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        (home / "train.py").write_text(code)
        (home / "tiny.yaml").write_text(spec)
        return home / "tiny.yaml"

    return written


def test_a_table_of_a_program_names_its_rows_and_its_fresh_seeds(htbench, write):
    spec = write()
    done = htbench("sweep", "run", spec, "--workers", 2)
    assert done.returncode == 0, done.stderr
    check_whole(htbench.root)
    points = read_points(htbench.root, "tiny")
    assert [point.stage for point in points].count("replicate") == 6
    assert {point.overrides["optimizer.lr"] for point in points if point.stage == "replicate"} == {0.1}
    shown = htbench("table").stdout
    assert "toy · none · width=4: test loss ↓, 3 fresh seeds" in shown and "quick" in shown
    assert "FLOPs" not in shown and json.loads(htbench("table", "--json").stdout)
    assert htbench("figure", "loss").stdout == "nothing to draw: loss\n", "it reports no loss of training"
    (spec.parent / "run.log").write_text("what a shell writes beside the program")
    assert "0 to run" in htbench("sweep", "plan", spec).stdout
    assert "`optimizer." not in htbench("table", "--notes").stdout, "names are those of the program"
    before = results(htbench.root)
    for name in ("train.py", "tiny.yaml"):
        (spec.parent / name).unlink()
    again = htbench("sweep", "run", "tiny")
    assert again.returncode == 0 and results(htbench.root) == before, "the store has all that it needs"
    assert "6/6" in htbench("sweep", "status", "tiny").stdout


def test_a_setting_of_one_row_alone_is_told_and_a_row_that_stops_early(htbench, write):
    spec = SPEC.replace("{rule: quick}", "{rule: quick, warm: 40}").replace("  report: test_loss\n", "")
    code = TRAIN.replace(", 5)", ', 5 - (args["rule"] == "quick"))')
    assert htbench("sweep", "run", write(spec, code), "--workers", 2).returncode == 0
    shown = htbench("table").stdout
    assert "! fixed, but not alike in all rows: optimizer.rule, warm" in shown
    assert "! quick: 6 of 6 runs stopped before step 4, the first at 3" in shown
    assert "best of its course" not in shown
    table = pd.read_csv(io.StringIO(htbench("table", "main_result", "--format", "csv").stdout))
    assert table["val_loss_n"].tolist() == [3, 3], "without a report, too, a row shows its fresh seeds"


@pytest.mark.parametrize("in_git", [False, True])
def test_a_store_and_logs_beside_the_program_are_none_of_its_files(write, in_git):
    spec = write(SPEC[: SPEC.index("  - {name: quick")])
    if in_git:
        subprocess.run(["git", "init", "-q", spec.parent], check=True)
    htbench = Htbench(spec.parent / "store")
    assert htbench("sweep", "run", spec, "--workers", 2).returncode == 0
    (spec.parent / "run.log").write_text("what a shell writes beside the program")
    assert "0 to run; 3 runs, 3 finished" in htbench("sweep", "plan", spec).stdout
    (copy,) = (htbench.root / "programs").iterdir()
    assert [path.name for path in copy.iterdir()] == ["train.py"]


def test_edited_code_makes_new_runs_of_the_same_settings(htbench, write):
    text = SPEC[: SPEC.index("  - {name: quick")]
    assert htbench("sweep", "run", write(text), "--workers", 2).returncode == 0
    spec = write(text, code := TRAIN.replace("range(1 +", "range(2 +"))
    plan = htbench("sweep", "plan", spec).stdout
    assert "3 to run" in plan and "3 runs have results and are trained again: program.code was" in plan, plan
    assert htbench("sweep", "run", spec, "--workers", 2).returncode == 0
    assert len(list(htbench.root.glob("programs/*"))) == 2 and len(read_points(htbench.root, "tiny")) == 3
    # What reads its output is in no key: that finished runs were read by another one is said.
    spec = write(text.replace("test (", "t.* ("), code)
    said = "3 finished runs were read by another program.log or program.files, and keep their"
    assert "0 to run" in (plan := htbench("sweep", "plan", spec).stdout) and said in plan, plan
    assert said in htbench("sweep", "run", spec).stderr
    spec = write(spec.read_text().replace("  resume:", "  data_version: b\n  resume:"), code)
    assert "3 to run" in (plan := htbench("sweep", "plan", spec).stdout) and said not in plan, plan


@pytest.mark.parametrize("steps", [0, 2])
def test_killed_with_its_runner_it_goes_on_once(htbench, write, steps):
    spec = write()
    process = htbench.start("sweep", "run", spec, "--workers", 1, HOLD=str(steps))

    def is_there():
        """Whether the first run waits, and what it has printed was read: the rest of a pipe dies with us."""
        folders = htbench.root.glob("runs/*/*/program")
        rows = [curve.read(folder.parent / "metrics.jsonl") for folder in folders]
        return any(not steps or (run and run[-1]["step"] == steps) for run in rows)

    wait_for(is_there)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    done = htbench("sweep", "run", spec, "--workers", 2)
    assert done.returncode == 0, done.stderr
    check_whole(htbench.root)
    losses = {key: metrics["val_loss"] for key, (_, _, metrics, _) in results(htbench.root).items()}
    rows = [row for key in losses for row in curve.read(Store(htbench.root).files(key).metrics)]
    assert {row["step"] for row in rows} == {1, 2, 3, 4} and len(rows) == 4 * len(losses)
    assert max(Store(htbench.root).last_attempt(key) for key in losses) == 2
    words = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    at_work = [line for line in words if str(htbench.root) in " ".join(line)]
    assert at_work == []


def test_interrupted_it_stops_its_programs_and_goes_on(htbench, write):
    spec = write()
    process = htbench.start("sweep", "run", spec, "--workers", 2, PAUSE="0.3")
    wait_for(lambda: list(Path(htbench.root).glob("runs/*/*/program/step")))
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == EXIT_INTERRUPTED
    states = {Store(htbench.root).state(key).status.value for key in Store(htbench.root).keys()}
    assert states == {"waiting"}
    assert htbench("sweep", "run", spec, "--workers", 2).returncode == 0
    check_whole(htbench.root)


def test_a_failure_shows_its_last_lines_and_the_same_command_tries_it_again(htbench, write):
    spec = write(code="import sys; sys.exit('no data')")
    done = htbench("sweep", "run", spec, "--workers", 2)
    assert done.returncode == EXIT_RUN_FAILED and "no data" in done.stderr
    assert "no data" in htbench("sweep", "status", "tiny").stdout


def test_tpe_searches_the_settings_of_a_program(htbench, write):
    text = SPEC[: SPEC.index("  - {name: quick")] + "search: {mode: tpe, trials: 4}\nreplicate: {seeds: 1}\n"
    text = text.replace("[0.05, 0.1, 0.2]", "{low: 0.01, high: 1, log: true}")
    text = text.replace("  resume: self\n", "  resume: self\n  derive: {half: lr / 2}\n")
    done = htbench("sweep", "run", write(text), "--workers", 2)
    assert done.returncode == 0, done.stderr
    rates = [point.overrides["optimizer.lr"] for point in read_points(htbench.root, "tiny")]
    assert len(set(rates)) == 4 and len(rates) == 5


def test_a_plan_says_how_runs_are_started_and_a_try_what_was_understood(htbench, write):
    spec = write()
    plan = htbench("sweep", "plan", spec)
    assert f"{sys.executable} train.py --width=4 --rule=plain --lr=0.05 --out=RUN_DIR" in plan.stdout
    assert not htbench.root.exists()
    tried = htbench("sweep", "try", spec)
    assert "ended by itself" in tried.stdout and "4 steps" in tried.stdout and "chosen by it" in tried.stdout
    assert "val_loss" in tried.stdout and not htbench.root.exists()
    half = htbench("sweep", "try", write(code=TRAIN.replace("test {", "tost {")))
    assert "not reported so far: val_loss and test_loss" in half.stdout
    once = htbench("sweep", "try", write(code=TRAIN.replace("range(1", "range(4")))
    assert "val_loss was reported once" in once.stdout


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("{args}", "--lr={lr}", "in rule, which does not reach the program; write {rule} or {args}"),
        ("{args}", "{args} {lrr}", "'{lrr}' in program.command stands for no setting; did you mean 'lr'?"),
        ("report:", "reprot:", "Unknown key 'reprot' in program; did you mean 'report'?"),
        ("resume: self", "resume: maybe", "program.resume must be `self`, `none`, or a mapping"),
        ("resume: self", "seeds: command", "program.seeds is `command`, but its command has no {seed}"),
        ("resume: self", "folder: gone", "There is no folder"),
        ("resume: self", "link: [data]", "program.link: there is no"),
        ("resume: self", "code: ['*.c']", "code: no file of the program's folder is called like '*.c'"),
        ("(?P<step>", "(?P<step", "which is no regular expression"),
        ("{rule: plain}", "{name: plain}", "A block's setting can't be called 'name'"),
        ("{name: plain, ", "{", "Block 1 of a program needs a name"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_a_sentence(htbench, write, old, new, sentence):
    done = htbench("sweep", "run", write(SPEC.replace(old, new, 1)))
    assert done.returncode == EXIT_USAGE and sentence in done.stderr, done.stderr
    assert not list(htbench.root.glob("runs/*"))


def test_a_program_that_ignores_its_seed_gets_no_verdict_and_says_so(htbench, write):
    text = SPEC.replace("  report: test_loss\n", "  metric: {name: val_loss, take: best}\n")
    spec = write(text, TRAIN.replace('int(os.environ["HTBENCH_SEED"])', "0"))
    assert htbench("sweep", "run", spec, "--workers", 2).returncode == 0
    shown = htbench("table").stdout
    assert shown.startswith("toy · none · width=4: val loss ↓") and "reported by one metric" in shown
    assert "No verdict" in shown and "3 fresh seeds gave one result: the seed changes nothing" in shown, shown
    assert "the value of each run is the best of its course" in shown


def test_equal_seeds_of_a_program_pair_nothing_unless_its_file_says_so():
    run = {"rule": "program", "seed": 1000, "data_seed": 1000, "candidate": "00ff00ff"}
    other = run | {"candidate": "00ff00fe"}
    assert read_seeds(run) != read_seeds(other)
    assert read_seeds(run | {"paired": True}) == read_seeds(other | {"paired": True}) == (1000, 1000)
    assert read_seeds(run | {"rule": "adamw"}) == (1000, 1000)
