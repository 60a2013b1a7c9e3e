"""The README's demo as installed, three steps a run: tables, figures, and a second call that rests."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.commands.demo import SWEEPS

HTBENCH = Path(sys.executable).parent / "htbench"
SHIPPED = Path(__file__).parents[2] / "sweeps" / "demo"
OPTIMIZERS = {"adamw", "sgdm", "muon", "htmuon"}


def demo(folder):
    """The bare command in a newcomer's folder."""
    return subprocess.run(
        [HTBENCH, "demo", "steps=3"], cwd=folder, capture_output=True, text=True, timeout=1500
    )


def lay_out_fewer(folder):
    """Sweep files of these names, which the command finds here first: fewer settings, one fresh seed."""
    for name in SWEEPS:
        sweep = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text())
        for block in sweep["blocks"]:
            wide = {"adamw": "optimizer.lr", "htmuon": "optimizer.p"}.get(block["name"])
            block["space"] = {axis: some[: 2 if axis == wide else 1] for axis, some in block["space"].items()}
        sweep["replicate"] = {"seeds": 1}
        (folder / name).write_text(yaml.safe_dump(sweep))


def files(store):
    return {
        path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize(
    ("lay_out", "points"),
    [(lay_out_fewer, 10), pytest.param(lambda folder: None, 48, marks=pytest.mark.slow)],
    ids=["fewer", "shipped"],
)
def test_the_demo_and_its_second_call(tmp_path, lay_out, points):
    lay_out(tmp_path)
    first = demo(tmp_path)
    assert first.returncode == 0, first.stderr
    for name in SWEEPS:
        assert f"{name}: {points} of {points} points have a result" in first.stdout
    rows = [line.split("|")[1].strip() for line in first.stdout.splitlines() if line.startswith("| ")]
    assert OPTIMIZERS <= set(rows) and len([row for row in rows if row in OPTIMIZERS]) == 8
    figures = tmp_path / "store" / "figures"
    assert {path.name for path in figures.iterdir()} >= {
        f"{name}.{kind}" for name in ("lr_curve", "p_curve", "loss") for kind in ("png", "pdf")
    }
    before = files(tmp_path / "store")
    second = demo(tmp_path)
    assert second.returncode == 0, second.stderr
    assert files(tmp_path / "store") == before
    assert second.stdout.replace("unchanged", "drawn") == first.stdout
