"""A search in rounds through the command: two optimizers, killed again and again, end where one run ends."""

import json
import os
import random
import signal
import time

import pytest

from htbench.harness.store.points import SEARCH, read_points
from tests.helpers.json_fields import promised
from tests.helpers.sweeping import carried_out, check_whole, results

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 10, batch_size: 16, checkpoint.every_steps: 3, log_every: 5}
search: {mode: refine, trials: 6}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: {low: 0.05, high: 0.1}}}
  - {name: muon, set: {optimizer.name: muon}, space: {optimizer.lr: [0.02, 0.04]}}
replicate: {seeds: 1}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return carried_out(tmp_path_factory.mktemp("refined"), SPEC)[0]


def test_each_block_has_at_most_its_trials_and_more_than_its_first_round(finished):
    check_whole(finished)
    points = [point for point in read_points(finished, "tiny") if point.stage == SEARCH]
    for block in ("sgdm", "muon"):
        assert 2 < len({p.overrides["optimizer.lr"] for p in points if p.block == block}) <= 6


def test_killed_anywhere_the_same_command_goes_on(htbench, write_spec, finished):
    spec, rnd = write_spec(SPEC), random.Random(3)
    for _ in range(4):
        process = htbench.start("sweep", "run", spec, "--workers", 2)
        before = len(list(htbench.root.glob("runs/*/*/record.json")))
        while process.poll() is None and len(list(htbench.root.glob("runs/*/*/record.json"))) < before + 3:
            time.sleep(0.05)
        time.sleep(rnd.random())
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    rows = (row, _) = json.loads(htbench("sweep", "status", spec, "--json").stdout)
    promised("sweep status", rows)
    assert row["rounds"]["most"] == 6 and row["rounds"]["tried"] <= 6
    done = htbench("sweep", "run", spec)
    assert done.returncode == 0, done.stderr
    check_whole(htbench.root)
    assert results(htbench.root) == results(finished)
    plan = htbench("sweep", "plan", spec, "--no-measure")
    assert plan.returncode == 0 and "0 to run" in plan.stdout, plan.stderr
    table = htbench("table", "--sweep", "tiny")
    assert table.returncode == 0 and "muon" in table.stdout, table.stderr


def test_a_plan_tells_the_first_round_and_the_most(htbench, write_spec):
    plan = htbench("sweep", "plan", write_spec(SPEC), "--no-measure")
    assert plan.returncode == 0, plan.stderr
    assert "optimizer.lr is refined in rounds: 4 settings are known so far, there can be 12" in plan.stdout
