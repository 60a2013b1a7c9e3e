"""A user's own `models` or `results`, in the working folder or on PYTHONPATH, do not get in our way."""

import os
import subprocess
import sys

import pytest

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16}
space: {optimizer.lr: [0.03, 0.1]}
"""
THEIRS = "raise RuntimeError('this is not the package that you want')\n"


@pytest.fixture
def project(tmp_path):
    """The folder of a user's project, with packages and a module that are called like ours."""
    for name in ("models", "results"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(THEIRS)
    (tmp_path / "optimizers.py").write_text(THEIRS)
    (tmp_path / "mine.py").write_text("ANSWER = 42\n")
    (tmp_path / "tiny.yaml").write_text(SPEC)
    return tmp_path


def call(project, *words):
    env = os.environ | {"PYTHONPATH": str(project), "HTBENCH_ROOT": str(project / "store")}
    words = [sys.executable, "-m", "htbench", *words]
    return subprocess.run(words, capture_output=True, text=True, cwd=project, env=env, timeout=300)


def test_a_sweep_and_its_table_beside_packages_of_the_same_names(project):
    done = call(project, "sweep", "run", "tiny.yaml", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "2/2 runs" in done.stdout and "not the package" not in done.stderr
    table = call(project, "table", "main_result", "--format", "md")
    assert table.returncode == 0 and "| adamw" in table.stdout, table.stderr


LOOK = """
import sys
import htbench.harness.cli
from htbench.__main__ import main
def look():
    first = [place for place in sys.path if place in ("", sys.argv[1])]
    from htbench.harness.config import parts
    parts.allow(["mine:ANSWER"])
    print(first, __import__("mine").ANSWER, __import__("htbench.models").models.__file__)
htbench.harness.cli.main = look
sys.exit(main())
"""


def test_the_working_folder_is_searched_for_a_named_part_only_and_after_ours(project):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, "-c", LOOK, str(project)]
    done = subprocess.run(words, cwd=project, env=env, capture_output=True, text=True)
    before, answer, place = done.stdout.split()
    assert (before, answer) == ("[]", "42") and not place.startswith(str(project)), done.stderr


def test_packages_of_theirs_that_are_called_as_ours_once_were_are_used(project):
    """And a part that imports an old name of ours is told the new one."""
    (project / "models" / "__init__.py").write_text(
        "import torch\n\nclass Mine(torch.optim.SGD):\n    pass\n"
    )
    (project / "old.py").write_text("from harness.store import Store\n")
    words = ["run", "task=digits", "model=resnet-nano", "steps=1", "optimizer.lr=0.1"]
    done = call(project, *words, "optimizer.name=models:Mine")
    assert done.returncode == 0 and "completed after 1 step" in done.stdout + done.stderr, done.stderr
    done = call(project, *words, "optimizer.name=old:Store")
    assert done.returncode == 2 and "needs 'harness', which is called htbench.harness now" in done.stderr
