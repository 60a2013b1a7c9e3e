"""Results as data: the frame and the curves that docs/results.md promises, its examples among them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import results
from harness.errors import UsageError
from results.analysis.load import load, tuned_columns

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")


def test_the_frame_is_that_of_the_tables(demo_store):
    assert results.frame(demo_store.root).equals(load(demo_store))
    assert set(results.frame(str(demo_store.root), ["demo-digits"])["sweep"]) == {"demo-digits"}


def test_every_column_is_in_the_docs_and_every_column_of_the_docs_exists(demo_store):
    frame = results.frame(demo_store.root)
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w*]+)`", row)}
    metrics = {name for name in frame if re.match(r"(val|test)_", name)}
    assert named - {"val_*", "test_*"} <= set(frame.columns)
    assert set(frame.columns) - named <= metrics | set(tuned_columns(frame))


def test_a_curve_has_a_row_for_each_step_with_its_evaluations(demo_store):
    frame = results.frame(demo_store.root)
    row = frame[(frame["task"] == "pydocs") & (frame["state"] == "completed")].iloc[0]
    curve = results.curve(demo_store.root, row["key"])
    assert list(curve.index) == list(range(1, 201)) and curve["loss"].notna().all()
    assert curve["val_loss"].iloc[-1] == row["val_loss"]
    assert curve["test_loss"].notna().sum() == 1


def test_mistakes_are_told_in_a_sentence(demo_store, tmp_path):
    with pytest.raises(UsageError, match="There is no store"):
        results.frame(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="Unknown sweep 'demo-digit'"):
        results.frame(demo_store.root, ["demo-digit"])
    with pytest.raises(UsageError, match="The run 'abc' has no curve"):
        results.curve(demo_store.root, "abc")


def test_the_examples_of_the_page_run(demo_store):
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    (demo_store.root.parent / "notebook.py").write_text("\n".join(examples))
    done = subprocess.run(
        [sys.executable, "-W", "error:::results", "notebook.py"],
        cwd=demo_store.root.parent,
        env={"MPLBACKEND": "agg", "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"htmuon +0\.9\d+ +0\.0\d+ +3\b", done.stdout)


def test_importing_results_loads_nothing():
    code = "import results, sys; print({'pandas', 'torch', 'harness.store.store'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
