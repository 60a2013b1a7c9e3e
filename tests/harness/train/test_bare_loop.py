"""The training loop beside bare PyTorch that does the same maths: `benchmarks/loop.py`, without its times."""

import itertools
from pathlib import Path

import pytest

from benchmarks import loop
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import resolve_config
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.store.curve import read

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
        flatten(sweep["base"]) | flatten(block["set"]) | {"optimizer.lr": loop.SETTINGS["optimizer.lr"]}
    )
    ours = resolve_config(
        loop.SETTINGS | {"steps": demo.steps, "evaluation.untrained": True, "device": demo.device}
    )
    assert ours == demo
