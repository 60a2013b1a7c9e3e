"""Somebody edits an optimizer: the plan names what is trained again, no row of a table mixes both."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from htbench.harness.system.environment import HOME, PACKAGE, PACKAGES

SPEC = """
name: {name}
base: {{task: digits, model: resnet-nano, steps: 3, batch_size: 16}}
blocks:
  - {{name: muon, set: {{optimizer.name: muon}}, space: {{optimizer.lr: [0.01, 0.02]}}}}
  - {{name: sgdm, set: {{optimizer.name: sgdm}}, space: {{optimizer.lr: [0.1]}}}}
replicate: {{seeds: 2}}
"""
RELEASED = '"shape": lambda m, n: math.sqrt(max(1, m / n)),'


@pytest.fixture
def copy(tmp_path):
    """A copy of the code to edit, which has a store of its own."""
    home = tmp_path / "home"
    for package in PACKAGES:
        shutil.copytree(HOME / package, home / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PACKAGE, home / "src" / "htbench", symlinks=True)
    for name in ("before", "after"):
        (home / f"{name}.yaml").write_text(SPEC.format(name=name))

    def call(*words):
        env = os.environ | {"HTBENCH_ROOT": str(tmp_path / "store"), "PYTHONPATH": str(home / "src")}
        done = subprocess.run(
            [sys.executable, "-m", "htbench", *words],
            cwd=home,
            env=env,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call.rule = home / "optimizers" / "muon.py"
    return call


@pytest.mark.slow
def test_an_edited_optimizer_makes_runs_and_rows_of_its_own(copy):
    copy("sweep", "run", "before.yaml")
    assert "0 to run" in copy("sweep", "plan", "before.yaml", "--no-measure")

    text = copy.rule.read_text()
    assert text.count(RELEASED) == 1
    copy.rule.write_text(text.replace(RELEASED, RELEASED.replace("max(1,", "max(4,")))
    plan = " ".join(copy("sweep", "plan", "before.yaml", "--no-measure").split())
    again = re.search(
        r"2 runs have results and are trained again: the code of muon was 1, is 1\+(\w{8}); "
        r"\d+ finished runs stay",
        plan,
    )
    assert again and "4 to run" in plan  # the settings of muon and its replicas; sgdm keeps its runs

    copy("sweep", "run", "after.yaml")
    table = copy("table", "main_result", "--format", "md")
    heads = re.findall(r"^\| (muon|sgdm)( \([^)]*\))?", table, re.MULTILINE)
    assert heads == [
        ("muon", f" (edited {again[1]})"),
        ("sgdm", ""),
        ("muon", " (revision 1)"),
    ]
    assert all(
        n == "2" for n in re.findall(r"^\| (?:muon|sgdm).*?\| +(\d+) +\| +[\d.]+ +\| +[\d.]+", table, re.M)
    )

    copy.rule.write_text(text)  # undone: the released code has its runs again
    assert "0 to run" in copy("sweep", "plan", "before.yaml", "--no-measure")
