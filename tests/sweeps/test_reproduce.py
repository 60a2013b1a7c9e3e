"""`htbench reproduce`: which commands it gives in which order, and that a killed call goes on."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from htbench.harness import cli
from htbench.harness.errors import RunFailedError, UsageError
from htbench.harness.paper import experiments
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store.points import SEARCH
from htbench.sweeps import commands as sweep_commands
from htbench.sweeps import reproduce, reproduce_card
from htbench.sweeps.experiments import ladder
from htbench.sweeps.spec.search import Search
from tests.helpers.command import TINY


class Commands:
    """Stands for all commands but `reproduce`: notes them, and answers with the given exit statuses."""

    def __init__(self, left=3, **statuses):
        self.left, self.statuses, self.given = left, statuses, []

    def preview_sweeps(self, args):
        self.given.append(["sweep plan", vars(args)])
        if status := self.statuses.get("plan"):
            raise {1: RunFailedError, 2: UsageError}[status]("No.")
        return [plan(Path(file).stem, self.left) for file in args.words]

    def sweep(self, args):
        self.given.append([f"sweep {args.action}", vars(args)])
        return self.statuses.get(args.action, 0)

    def invoke(self, name, **given):
        self.given.append([name, given])
        return self.statuses.get(name, 0)

    @property
    def names(self):
        return [name for name, _ in self.given]

    def of(self, name):
        """What a command was given."""
        return [given for word, given in self.given if word == name]


def plan(sweep, left, seconds=None, model="llama-nano", search=None):
    """What `sweep plan` finds of a sweep, as far as `reproduce` looks at it."""
    point = SimpleNamespace(id="settled", stage=SEARCH, block="b", overrides={"seed": 0})
    points = [SimpleNamespace(point=point)] * 5
    rows = [SimpleNamespace(runs=left, model=model, seconds=seconds, steps=10)] if left else []
    return SimpleNamespace(
        facts=SimpleNamespace(replicas_to_come=2, to_run=left, seconds=seconds or 0.0, card=rows),
        spec=SimpleNamespace(name=sweep, search=search or Search()), planned=points,
        run_states={"settled": SimpleNamespace(status=Status.COMPLETED)},
    )  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def give(monkeypatch, tmp_path):
    """Call `htbench reproduce WORDS --yes` with all other commands replaced; returns its status."""

    def call(commands, *words, yes=True):
        with monkeypatch.context() as patch:
            patch.setattr(sweep_commands, "preview_sweeps", commands.preview_sweeps)
            patch.setattr(sweep_commands, "sweep", commands.sweep)
            patch.setattr(cli, "invoke", commands.invoke)
            words = [*words, "--yes"] if yes else words
            return cli.call(["reproduce", *words, "--root", str(tmp_path / "store")])

    return call


FINISH = ["figure", "table", "report"]


# --- what is wanted ---


def test_all_experiments_at_nano_scale_are_the_default():
    wanted = reproduce._parse_request([], False)
    assert (wanted.scale, wanted.experiments) == ("nano", experiments.experiments("nano"))
    assert wanted.experiments == ["cifar", "imagenet", "p_grid_cifar"]
    assert set(wanted.tables) == {"cifar", "imagenet", "p_grid_cifar", "lr_grid_cifar10", "lr_grid_cifar100"}


@pytest.mark.parametrize("words", [["paper", "lr_grid_cifar10"], ["lr_grid_cifar10", "paper"]])
def test_a_table_brings_its_experiments_and_their_other_tables(words):
    wanted = reproduce._parse_request(words, False)
    assert wanted.sweeps == ["paper-cifar"]
    assert {"cifar", "lr_grid_cifar10", "lr_grid_cifar100"} == set(wanted.tables)


@pytest.mark.parametrize("scale", ["nano", "quick", "paper", "ladder"])
def test_every_experiment_has_a_shipped_sweep_file(scale):
    wanted = reproduce._parse_request([scale], False)
    assert all(os.path.isfile(file) for file in wanted.files)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["main_resul"], "did you mean 'main_result'?"),
        (["../../etc\npasswd"], "Unknown experiment '../../etc\\npasswd'; known are"),
        ([""], "Unknown experiment ''"),
        (["steps=3"], "Unknown experiment 'steps=3'"),
        (["wall_clok", "paper"], "did you mean 'wall_clock'?"),
        (["nano", "paper"], "One scale at a time, not nano and paper."),
        (["paper", "--quick"], "One scale at a time, not paper and --quick."),
        (["ladder", "paper"], "One scale at a time, not ladder and paper."),
        (["main_result"], "main_result is about language models, which are not decidable at nano scale"),
        (["--quick", "interval"], "not decidable at quick scale; `htbench reproduce ladder --root "),
        (["ladder", "s1-batsh"], "did you mean 's1-batch'?"),
        (["ladder", "--quick", "s1"], "Unknown part of the ladder 's1'; known are"),
        (["--gpu", "nano"], "--gpu goes with paper and ladder; nano is trained on a CPU."),
        (
            ["ladder", "--quick", "--gpu"],
            "--gpu goes with paper and ladder; ladder --quick is trained on a CPU.",
        ),
        (["--workers", "0"], "--workers must be at least 1, not 0."),
        (["--workers", "two"], "invalid int value"),
    ],
)
def test_a_mistake_is_one_sentence(give, capsys, words, sentence):
    commands = Commands()
    assert give(commands, *words) == 2
    told = capsys.readouterr().err
    assert sentence in told and told.count("\n") == 1 and not commands.given


# --- the commands ---


def test_the_commands_of_nano_and_their_order(give, tmp_path):
    commands = Commands()
    assert give(commands, "p_grid_cifar", "--workers", "3", "--minutes", "10") == 0
    assert commands.names == ["sweep plan", "sweep run", *FINISH]
    (run,), (table,) = commands.of("sweep run"), commands.of("table")
    assert (run["workers"], run["minutes"], run["root"]) == (3, 10.0, tmp_path / "store")
    assert "p_grid_cifar" in table["names"] and table["scale"] == ["nano"]
    # The tables are made of these sweeps only, whatever else is in the store.
    for name in FINISH:
        assert [given["sweep"] for given in commands.of(name)] == [["nano-cifar", "nano-p_grid_cifar"]]


PLAN_AND_RUN = ["sweep plan", "sweep run"]


@pytest.mark.parametrize(
    ("left", "statuses", "words", "status", "names"),
    [
        (0, {}, "paper cifar", 0, [*PLAN_AND_RUN, *FINISH]),
        (0, {}, "paper cifar --submit", 0, [*PLAN_AND_RUN, *FINISH]),
        (0, {}, "paper muon_ns_vs_svd", 0, [*PLAN_AND_RUN, "figure", "report"]),  # no table has it
        (3, {"run": 1}, "cifar", 1, [*PLAN_AND_RUN, *FINISH]),  # a failed run is told at last
        (3, {"submit": 1}, "paper cifar --submit", 1, ["sweep plan", "sweep submit"]),
        (3, {"plan": 2}, "cifar", 2, PLAN_AND_RUN[:1]),
        (3, {"plan": 1}, "cifar", 1, PLAN_AND_RUN[:1]),
        (3, {"run": 130}, "cifar", 130, PLAN_AND_RUN),
        (3, {"run": 2}, "cifar", 2, PLAN_AND_RUN),
        (3, {"figure": 130}, "cifar", 130, [*PLAN_AND_RUN, "figure"]),
    ],
)
def test_its_commands_and_its_status_follow_from_theirs(give, capsys, left, statuses, words, status, names):
    commands = Commands(left, **statuses)
    assert give(commands, *words.split()) == status and commands.names == names
    assert left or "to run" not in capsys.readouterr().err


# --- the question ---


@pytest.mark.parametrize(
    ("answer", "flags", "runs"),
    [("y\n", [], True), ("\n", [], False), ("", [], False), ("", ["--yes"], True)],
)
def test_at_a_terminal_it_asks_once(give, monkeypatch, capsys, answer, flags, runs):
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    commands = Commands()
    assert give(commands, "cifar", *flags, yes=False) == 0
    assert ("sweep run" in commands.names) == runs
    said = capsys.readouterr()
    assert said.err.count("Start? [y/N]") == (not flags)
    assert ("Nothing was started." in said.out) == (not runs)
    assert all(len(line) <= 80 for line in said.err.splitlines() if "$ htbench" not in line)


@pytest.mark.parametrize("pipe", ["stdin", "stderr"])
def test_without_a_terminal_it_asks_for_consent_on_the_command_line(give, monkeypatch, capsys, pipe):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n") if pipe == "stdin" else Terminal("y\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: pipe != "stderr", raising=False)
    commands = Commands()
    assert give(commands, "cifar", yes=False) == 2
    assert commands.names == ["sweep plan"]
    *card, told = capsys.readouterr().err.splitlines()
    assert "--yes" in told and any(line.startswith("together") for line in card), "what --yes would start"
    assert give(Commands(left=0), "cifar", yes=False) == 0, "what starts nothing asks nothing"


# --- the paper's own scale ---


def test_the_paper_is_not_begun_without_a_gpu(give, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "has_gpu", lambda: False)
    commands = Commands()
    assert give(commands, "paper", "cifar") == 2
    assert commands.names == ["sweep plan"]
    said = capsys.readouterr().err
    assert (
        "3 runs of the paper are missing" in said
        and "`htbench reproduce paper cifar --submit --root " in said
    )


def test_submit_returns_and_says_what_to_call_later(give, capsys):
    commands = Commands()
    assert give(commands, "paper", "cifar", "--submit") == 0
    assert commands.names == ["sweep plan", "sweep submit"]
    said = capsys.readouterr()
    assert "htbench sweep status paper-cifar" in said.out
    assert "`htbench reproduce paper cifar --submit --root " in " ".join(said.out.split())
    assert "not known" in said.err or "120 s" in said.err


# --- the ladder ---


def test_the_ladder_is_its_sweeps_in_their_order(give, monkeypatch):
    commands = Commands()
    assert give(commands, "ladder") == 0
    assert commands.names == ["sweep plan", "sweep run", "figure", "table", "table", "report"]
    (run,), (table, of_split) = commands.of("sweep run"), commands.of("table")
    assert [Path(word).stem for word in run["words"]] == list(ladder.ORDER)
    assert [*table["sweep"], *of_split["sweep"], ladder.SEARCHED] == list(ladder.ORDER)
    assert of_split["sweep"] == list(ladder.SPLIT) and "scale" not in table
    some = (["s2", "aux"], ("ladder-aux", "ladder-s2")), (["split-s2"], ("ladder-split-s2",))
    for words, sweeps in ((["--quick"], ladder.QUICK), *some):
        assert give(commands, "ladder", *words) == 0
        assert tuple(commands.of("table")[-1]["sweep"]) == sweeps


def test_its_part_for_a_gpu_wants_one(give, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "has_gpu", lambda: False)
    commands = Commands()
    assert give(commands, "ladder", "--gpu") == 2
    said = capsys.readouterr().err
    assert f"{3 * len(ladder.GPU)} runs of the ladder need a GPU" in said and said.count("\n") == 1
    assert "`htbench reproduce ladder --gpu --submit --root " in said
    assert give(commands, "ladder", "--submit", "--gpu") == 0
    assert "--scale" not in capsys.readouterr().out


# --- the card ---


def test_the_card_adds_what_was_measured_seen_before_and_what_nobody_knows():
    known = {"c": 1.2}
    parts = [
        reproduce_card.estimate(plan("nano-a", 4, seconds=100.0), known),
        reproduce_card.estimate(plan("nano-c", 5), known),
        reproduce_card.estimate(plan("nano-d", 6), known),
    ]
    times = ["100 s", "60 s", "not known for 6 runs"]
    assert [one.time for one in parts] == times
    assert reproduce_card.estimate(plan("ladder-c2", 2, model="llama-c"), known).time == "24 s"
    refining = plan("ladder-a", 5, search=Search(mode="refine", trials=8))
    assert reproduce_card.estimate(refining, known).more == 0, "all that is planned of the search has ended"
    refining.run_states["settled"].status = Status.WAITING
    assert reproduce_card.estimate(refining, known).more == 3
    (section,) = reproduce_card.make_card(parts, [Note("times_of_worker", seconds=None, workers=1)]).sections
    times = "2.7 min + not known for 6 runs"
    assert [cell.value for cell in section.rows[-1]] == ["together", 21, 15, times]


# --- for real ---

_SWEEP = f"""
name: nano-imagenet
base: {json.dumps({**TINY, "steps": 3, "optimizer.name": "muon"})}
blocks:
  - {{name: imagenet-1k-vit-tiny-muon, space: {{optimizer.lr: [0.01, 0.02]}}}}
  - {{name: imagenet-1k-vit-tiny-sgdm, set: {{optimizer.name: sgdm}}, space: {{optimizer.lr: [0.1, 0.2]}}}}
replicate: {{seeds: 1}}
"""
_DRIVER = """
import sys
from pathlib import Path
from htbench.harness import cli
from htbench.sweeps import reproduce
from htbench.results.figures.registry import FIGURES
for name in set(FIGURES) - {"loss"}:  # to draw them all takes long
    del FIGURES[name]
reproduce.SWEEPS = Path(sys.argv.pop(1))
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_killed_call_goes_on_and_nothing_is_trained_twice(tmp_path):
    sweeps, root = tmp_path / "sweeps", tmp_path / "store"
    (sweeps / "nano").mkdir(parents=True)
    (sweeps / "nano" / "nano-imagenet.yaml").write_text(_SWEEP)
    words = [sys.executable, "-c", _DRIVER, sweeps, "reproduce", "nano", "imagenet", "--yes", "--root", root]

    def start():
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def records():
        return {path: path.stat().st_mtime_ns for path in root.glob("runs/*/*/record.json")}

    for least in (1, 3):
        process = start()
        while process.poll() is None and len(records()) < least:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    before = records()
    assert before
    process = start()
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    assert "report.html" in out
    after = records()
    assert len(after) == 6 and before.items() <= after.items()
    process = start()
    again, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    assert records() == after
    assert again == out
