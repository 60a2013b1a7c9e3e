"""The README's demo as installed, three steps a run: tables, figures, and a second call that rests."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from htbench.sweeps.reproduce import demo as demo_command

HTBENCH = Path(sys.executable).parent / "htbench"


def demo(folder):
    """The bare command in a newcomer's folder."""
    return subprocess.run(
        [HTBENCH, "demo", "steps=3"], cwd=folder, capture_output=True, text=True, timeout=1500
    )


def files(store):
    """When each was written; of figures, which are drawn each time, the bytes."""
    paths = [path for path in store.rglob("*") if path.is_file() and path.name != ".lock"]
    return {
        path: path.read_bytes() if path.parent.name == "figures" else path.stat().st_mtime_ns
        for path in paths
    }


@pytest.mark.long
def test_the_demo_and_its_second_call(tmp_path):
    first = demo(tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("96/96 runs") and "store/report.html" in first.stdout
    assert (tmp_path / "store" / "report.html").is_file()
    assert len(first.stdout.splitlines()) < 24
    figures = tmp_path / "store" / "figures"
    assert {path.name for path in figures.iterdir()} >= {
        f"{name}.{kind}" for name in ("lr_curve", "pareto", "loss") for kind in ("png", "pdf")
    }
    before = files(tmp_path / "store")
    second = demo(tmp_path)
    assert second.returncode == 0, second.stderr
    assert files(tmp_path / "store") == before
    assert second.stdout.splitlines()[1:] == first.stdout.splitlines()[1:]  # the first line has the time


def test_the_demo_is_that_of_the_package_and_not_what_the_store_has_of_that_name(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr("htbench.sweeps.commands.sweep", lambda args: called.append(args) or 2)
    words = argparse.Namespace(words=["steps=3"], workers=None, replace=True, root=tmp_path)
    assert demo_command(words) == 2
    (run,) = called
    *files, override = run.words
    assert override == "steps=3" and run.replace and all(Path(file).is_file() for file in files)
