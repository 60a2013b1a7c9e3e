"""`htbench bench loop`: that it compares like with like. How fast anything is, is not a matter for a test."""

import itertools
import json
import math
from pathlib import Path

import pytest

from harness import cli
from harness.bench import loop
from harness.bench.loop import SETTINGS
from harness.bench.turns import Measurement
from harness.config.names import flatten
from harness.config.settings import resolve_config
from harness.config.yaml_text import read_yaml
from harness.show.note import Note
from harness.store.curve import read
from tests.helpers.json_fields import promised

SWEEP = Path(__file__).parents[3] / "sweeps" / "demo" / "demo-pydocs.yaml"


def test_both_loops_do_the_same_maths(tmp_path):
    timing = loop.interleave(tmp_path, rounds=4, log_every=1)
    (curve,) = tmp_path.glob("runs/*/*/metrics.jsonl")
    *losses, _ = [row["loss"] for row in read(curve) if "loss" in row]  # the last step is not timed
    assert len(losses) == 10
    assert timing.losses == pytest.approx(losses, abs=1e-6)
    assert losses[-1] < losses[0] - 0.1  # so the updates are the same, too
    assert len(timing.harness) == len(timing.bare) == 4


def test_loops_take_turns_in_mirrored_order():
    made = []
    turns = loop.Turns(lambda step: made.append("harness"), (made.append("bare") for _ in itertools.count()))
    for step in range(5):
        turns.batch(step)
    assert " ".join(made) == "harness bare bare harness harness bare bare harness harness"
    assert len(turns.harness) == len(turns.bare) == 4  # the fifth is under way


def test_it_is_the_run_of_the_demo():
    sweep = read_yaml(SWEEP)
    (block,) = (block for block in sweep["blocks"] if block["name"] == "adamw")
    demo = resolve_config(
        flatten(sweep["base"]) | flatten(block["set"]) | {"optimizer.lr": SETTINGS["optimizer.lr"]}
    )
    ours = resolve_config(
        SETTINGS | {"steps": demo.steps, "evaluation.untrained": True, "device": demo.device}
    )
    assert ours == demo


@pytest.mark.parametrize(
    ("n", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (20, 6), (60, 22), (100, 40)]
)  # of the lower end, as in tables of the sign test
def test_interval_of_the_median(n, rank):
    found = Measurement.of("x", "s", range(n, 0, -1))
    assert (found.low, found.median, found.high) == (rank, (n + 1) / 2, n + 1 - rank)


def test_the_command_measures_everything(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(loop, "TORCH_STARTS", 1)
    words = ["bench", "loop", "--root", str(tmp_path), "--rounds", "1", "--starts", "1", "--json"]
    assert cli.main(words) == 0
    report = json.loads(capsys.readouterr().out)
    promised("bench loop", report)
    figures = {row["name"]: row for row in report["figures"]}
    assert list(tmp_path.iterdir()) == []
    assert report["environment"]["cpu"] and report["environment"]["torch"]
    assert {row["n"] for row in figures.values()} == {1}
    assert len(figures) == 6
    for name, row in figures.items():
        assert math.isfinite(row["median"]) and row["low"] <= row["median"] <= row["high"]
        # The ratio of two times is positive: an overhead is above -100 %.
        assert row["median"] > (-100 if name.startswith("overhead") else 0)


def test_report_has_a_line_per_measurement():
    figures = [Measurement.of("overhead", "%", [1.0, 2.0, 4.0], 3.0), Measurement.of("step", "ms", [20.0])]
    report = loop.report({"cpu": "some CPU", "torch": "2.9"}, figures)
    assert report.title == "llama-nano on pydocs, 16 x 32 tokens per step, 1 thread"
    (section,) = report.sections
    assert section.above == (Note("bench_cpu", cpu="some CPU", torch="2.9"),)
    rows = [[cell.value for cell in row] for row in section.rows]
    assert rows[0] == ["overhead", 3, 2.0, "1.000 .. 4.000", "%", "3 met"]
    assert rows[1] == ["step", 1, 20.0, "20.000 .. 20.000", "ms", ""]


@pytest.mark.parametrize("words", [["bench", "loop", "--rounds", "0"], ["bench", "loop", "--starts", "-1"]])
def test_counts_must_be_positive(words, tmp_path, capsys):
    assert cli.main([*words, "--root", str(tmp_path)]) == 2
    assert f"{words[2]} must be at least 1, not {words[3]}" in capsys.readouterr().err
