"""Who looks at a store runs no code of others: neither what it names, nor what lies in the working folder."""

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from htbench.harness import tasks
from htbench.harness.store import Store
from htbench.harness.store.points import read_points
from htbench.harness.system.environment import CODE
from tests.helpers.command import Htbench
from tests.helpers.stored_runs import files

TRAP = """
import os
with open(os.environ["CANARY"], "a") as file:
    print(__name__, file=file)
"""
PARTS = """
import torch
from htbench.harness.data.digits import fingerprint, load
from htbench.harness.tasks import TaskSpec
from htbench.models.resnet import ResNet

TASK = TaskSpec("", "image", "accuracy", True, "evil:fingerprint", "evil:load", adamw_lr=0.02)


def net(classes, in_channels):
    return ResNet(blocks=(1, 1, 1), bottleneck=False, width=4, classes=classes, in_channels=in_channels)


class Opt(torch.optim.SGD):
    def __init__(self, params, lr=0.01, momentum=0.5):
        super().__init__(params, lr=lr, momentum=momentum)
"""
SWEEP = """
name: evil
base: {task: "evil:TASK", model: "evil:net", steps: 3, batch_size: 16}
blocks:
  - {name: mine, set: {optimizer.name: "evil:Opt"}, space: {optimizer.lr: [0.01, 0.03]}}
  - {name: ours, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.01, 0.03]}}
"""
# What libraries look for on the path in case that it is there, and what else may lie in a folder.
CHANCE = (
    "numexpr",
    "bottleneck",
    "org",
    "pyarrow_hotfix",
    "numba",
    "IPython",
    "cupy",
    "lxml",
    "xlsxwriter",
    "evil",
)
LOOKS = (
    "runs ls --all",
    "runs ls optimizer.name=evil:Opt",
    "runs import ../other --dry-run",
    "runs import ../other",
    "runs gc",
    "table",
    "table main_result --format csv",
    "figure",
    "report --out ../report.html",
    "ledger",
    "doctor",
    "zoo",
    "zoo --json",
    "models",
    "tasks",
    "spectra {key}",
    "export {key} ../exported",
    "cost task=digits model=resnet-nano steps=5",
    *(f"sweep {action} evil" for action in ("status", "status --json", "plan", "index", "cancel")),
    "sweep status ../store/sweeps/evil/spec.yaml",
)


class Place:
    """A store with finished and missing runs of parts that are gone, and a folder full of traps."""

    def __init__(self, folder):
        self._lies_in(folder)
        self.traps.mkdir()
        (self.traps / "evil.py").write_text(PARTS)
        (self.traps / "evil.yaml").write_text(SWEEP)
        done = Htbench(self.store, cwd=self.traps)("sweep", "run", "evil.yaml", "--quiet")
        assert done.returncode == 0, done.stderr
        (self.traps / "evil.yaml").unlink()
        self.keys = [point.key for point in read_points(self.store, "evil")]
        shutil.copytree(self.store, folder / "other")
        for key in self.keys[1::2]:  # has not run yet
            shutil.rmtree(Store(self.store).run_folder(key))
        (self.traps / "matplotlibrc").write_text("backend: module://evil\n")
        for name in CHANCE:
            (self.traps / f"{name}.py").write_text(TRAP)

    def _lies_in(self, folder):
        self.store, self.traps, self.mark = folder / "store", folder / "traps", folder / "imported.txt"

    def copied(self, folder):
        """The same in another folder."""
        shutil.copytree(self.store.parent, folder, dirs_exist_ok=True)
        one = copy.copy(self)
        one._lies_in(folder)
        return one

    def look(self, words, program=(), **environment):
        """Give a command in the folder; returns how it ended. It must have imported nothing from there."""
        words = words.format(key=self.keys[0]).split()
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env |= {"HTBENCH_ROOT": str(self.store), "CANARY": str(self.mark)} | environment
        if program:
            done = subprocess.run([*program, *words], cwd=self.traps, env=env, capture_output=True, text=True)
        else:
            done = Htbench(self.store, cwd=self.traps)(*words, CANARY=str(self.mark))
        imported = self.mark.read_text().split() if self.mark.exists() else []
        assert imported == [], f"{words} imported them"
        assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr, done.stderr
        return done


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture
def place(original, tmp_path):
    return original.copied(tmp_path)


def test_no_look_imports_what_the_store_names(place):
    for words in LOOKS:
        place.look(words)


def test_runs_of_parts_that_are_gone_are_listed_tabled_and_imported(place):
    before = files(place.store)
    listed, table = place.look("runs ls --json").stdout, place.look("table --format md").stdout
    assert place.keys[0] in listed and "evil:Opt" in table and "evil:TASK, evil:net" in table
    assert "Validation accuracy (%)" in table, "the task's metric is that of its records"
    status = place.look("sweep status evil --json").stdout
    assert [block["completed"] for block in json.loads(status)] == [1, 1]
    assert files(place.store) == before
    assert place.look("runs import ../other").stdout.startswith("imported 2 runs (2 completed)")
    other = Store(place.store.parent / "other")
    assert Store(place.store).records(place.keys) == other.records(place.keys)


def test_a_run_whose_config_is_changed_is_refused_without_importing_it(place):
    record = Store(place.store.parent / "other").files(place.keys[1]).record
    record.write_text(record.read_text().replace('"momentum": 0.5', '"momentum": 0.6'))
    assert "its config is that of another key" in place.look("runs import ../other").stderr


def test_what_a_store_names_is_not_planned_but_trained_on_demand(place):
    refused = place.look("sweep plan evil")
    assert refused.returncode == 2 and "'evil:TASK' is no part of htbench" in refused.stderr
    (place.traps / "evil.py").write_text(PARTS)
    done = Htbench(place.store, cwd=place.traps)("sweep", "run", "evil", "--quiet")
    assert done.returncode == 0 and "4/4 runs" in done.stdout, done.stderr


def test_a_task_that_nothing_describes_has_an_unknown_metric():
    for environment in ({}, {"task": 3}, {"task": {"kind": "lm", "metric": [], "higher_is_better": True}}):
        found = tasks.recorded("gone:TASK", environment)
        assert (found.kind, found.metric, found.higher_is_better) == ("", tasks.UNKNOWN, False)


# --- a fresh Python, as people start it ---

SCRIPT, MODULE = (str(Path(sys.executable).parent / "htbench"),), (sys.executable, "-m", "htbench")


@pytest.mark.parametrize(
    ("program", "words", "path"),
    [
        (SCRIPT, "report --out ../report.html", None),
        (MODULE, "table", None),
        (SCRIPT, "table", ":/nowhere"),
        pytest.param(SCRIPT, "table", ".", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_found_by_chance(place, program, words, path):
    place.look(words, program, **({} if path is None else {"PYTHONPATH": path}))


# Python itself puts the folder first on the path of `-c` and `-m`, not of a script.
ALL = """
import os, sys
from htbench.__main__ import leave_out_chance_folders
leave_out_chance_folders()
from htbench.harness import cli
for words in sys.argv[1:]:
    assert cli.main(words.split()) in (0, 1, 2) and not os.path.exists(os.environ["CANARY"]), words
"""


@pytest.mark.slow
def test_no_command_finds_anything_by_chance(place):
    looks = [words.format(key=place.keys[0]) for words in LOOKS]
    env = os.environ | {"HTBENCH_ROOT": str(place.store), "CANARY": str(place.mark)}
    env["PYTHONPATH"] = str(CODE)
    done = subprocess.run([sys.executable, "-c", ALL, *looks], cwd=place.traps, env=env, capture_output=True)
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    assert not place.mark.exists(), place.mark.read_text()


FRAME = "import sys; from htbench import results; print(list(results.frame(sys.argv[1]).rule))"


def test_a_notebook_that_reads_a_store_imports_no_part(place):
    """Its path is its own: a module beside it may be imported, but not since a store names it."""
    for name in set(CHANCE) - {"evil"}:
        (place.traps / f"{name}.py").unlink()
    env = os.environ | {"CANARY": str(place.mark), "MPLBACKEND": "agg"}
    words = [sys.executable, "-c", FRAME, str(place.store)]
    done = subprocess.run(words, cwd=place.traps, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "evil:Opt" in done.stdout, done.stderr
    assert not place.mark.exists()


def test_only_who_names_a_part_searches_the_working_folder(place):
    words = "run task=digits model=resnet-nano steps=2 batch_size=16 --quiet"
    assert place.look(words, MODULE).returncode == 0
    env = {"CANARY": str(place.mark)}
    assert Htbench(place.store, cwd=place.traps)("zoo", "--check", "evil:Opt", **env).returncode == 2
    assert place.mark.read_text().split() == ["evil"]
