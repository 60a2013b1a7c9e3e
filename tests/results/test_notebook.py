"""Results as data: the frame and the curves that docs/results.md promises, its examples among them."""

import fnmatch
import re
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

from htbench import results
from htbench.harness import cli
from htbench.harness.errors import UsageError
from htbench.harness.system.environment import CODE
from htbench.results.frames import typed
from tests.helpers.frames import load_frame

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")


def test_the_frame_is_that_of_the_tables_with_types(mixed_store):
    plain, typed = load_frame(mixed_store), results.frame(mixed_store.root)
    assert set(plain) <= set(typed) and len(plain) == len(typed)
    for name in plain:
        there = plain[name].notna()
        missing = typed[name][~there].tolist()
        assert all(pandas.isna(value) or value == "" for value in missing), name
        if name not in ("began", "ended"):
            assert typed[name][there].tolist() == plain[name][there].tolist(), name
    assert set(results.frame(str(mixed_store.root), ["demo-digits"])["sweep"]) == {"demo-digits"}


def documented():
    """The columns of the page: name or pattern -> type."""
    rows = re.findall(r"^\| (`.*?) \| `(.*?)` \|", PAGE, re.MULTILINE)
    return {name: kind for names, kind in rows for name in re.findall(r"`([\w*]+)`", names)}


def waiting_store(bench, make):
    bench.add("digits", "muon", 0.02, state="waiting")
    return bench.write()


def two_runs(bench, make):
    bench.add("digits", "htmuon", 0.02, p=0.25, metrics=make.image(0.9, 0.4))
    bench.add("pydocs", "adamw", 0.002, metrics=make.text(4.2), state="pruned", environment={"code": None})
    return bench.write()


@pytest.mark.parametrize("fill", [waiting_store, two_runs, lambda *_: None])
def test_every_column_has_the_type_of_the_page_in_every_store(fill, bench, make, mixed_store):
    frame = results.frame((fill(bench, make) or mixed_store).root)
    known = documented()
    always = [name for name in known if name in typed.COLUMNS]
    assert list(typed.COLUMNS) and set(always) == set(typed.COLUMNS) <= set(frame)
    settings = set(frame.columns[frame.columns.get_loc("optimizer") + 1 : frame.columns.get_loc("seed")])
    for name, dtype in frame.dtypes.items():
        patterns = [one for one in known if fnmatch.fnmatch(name, one)]
        kind = known.get(name) or (known[max(patterns, key=len)] if patterns else None)
        assert kind or name in settings, f"docs/results.md lacks {name}"
        assert kind is None or str(dtype) == {"str": "object", "tuple": "object"}.get(kind, kind), name
        if kind == "str":
            assert set(map(type, frame[name])) <= {str}, name


def test_a_setting_has_its_declared_type_whatever_the_runs_have(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    frame = results.frame(bench.write().root)
    kinds = {"lr": "float64", "ns_steps": "Int64", "nesterov": "boolean", "routing": "object"}
    assert {name: str(frame[name].dtype) for name in kinds} == kinds
    assert frame["grad_clip"].isna().all() and frame["grad_clip"].dtype == "float64"


def test_what_has_another_type_than_it_should_stays_as_it_is():
    frame = pandas.DataFrame(
        {"seed": [1, "two"], "lr": [0.1, None], "ended": ["2026-01-31T12:00:00+00:00", ""]}
    )
    found = typed.typed(frame.assign(mine=["a", None], other=[(1,), 2.0]).to_dict("records"))
    assert found["seed"].tolist() == [1, "two"] and found["lr"].dtype == "float64"
    assert found["ended"].isna().tolist() == [False, True] and found["mine"].tolist() == ["a", ""]
    assert found["other"].tolist() == [(1,), 2.0]


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
    with pytest.raises(UsageError, match="The run 'abcabcabcabc' has no curve"):
        results.curve(demo_store.root, "abcabcabcabc")


def test_the_examples_of_the_page_run(demo_copy):
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    tables = demo_copy.root.parent / "tables"
    words = ["table", "main_result", "--format", "parquet", "--out", tables, "--root", demo_copy.root]
    assert cli.main(list(map(str, words))) == 0
    (demo_copy.root.parent / "notebook.py").write_text("\n".join(examples))
    done = subprocess.run(
        [sys.executable, "-W", "error", "notebook.py"],
        cwd=demo_copy.root.parent,
        env={"MPLBACKEND": "agg", "PYTHONPATH": str(CODE), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"htmuon +0\.9\d+ +0\.0\d+ +3\b", done.stdout)


def test_importing_results_loads_nothing():
    code = (
        "import sys; from htbench import results;"
        "print({'pandas', 'torch', 'htbench.harness.store.store'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
