"""A program that is not ours on a real SLURM: preempted it goes on in its folder, and there is a table."""

import json
import sys

import pytest

from htbench.harness.store import Store
from tests.helpers.on_cluster import NODES, accepted, ask, attempts, cluster, finish, site, wait_for

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

TRAIN = """
import os, pathlib, sys, time
args = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
place = pathlib.Path(args["out"], "step")
for step in range(1 + (int(place.read_text()) if place.exists() else 0), 9):
    time.sleep(0.5)
    loss = abs(float(args["lr"]) - 0.1) + 1 / step + int(os.environ["HTBENCH_SEED"]) % 7 / 1000
    print(f"step {step}: val {loss:.6f}", flush=True)
    place.write_text(str(step))
"""
SPEC = f"""
name: few
program:
  command: "{sys.executable} train.py {{args}} --out={{run_dir}}"
  log: ['step (?P<step>\\d+): val (?P<val_loss>\\S+)']
  resume: self
base: {{task: toy, model: none}}
blocks:
  - {{name: plain, space: {{lr: [0.05, 0.1, 0.2]}}}}
replicate: {{seeds: 2}}
resources: {{timeout_min: 20, partition: low}}
"""


@pytest.mark.short
def test_a_preempted_program_goes_on_in_its_folder(site, cluster, tmp_path):
    cluster("warn-before-preemption")
    home = tmp_path / "home"
    home.mkdir()
    (home / "train.py").write_text(TRAIN)
    spec = home / "few.yaml"
    spec.write_text(SPEC)
    assert accepted(site, spec) == 3
    wait_for(lambda: len(list(site.root.glob("runs/*/*/program/step"))) == 3)
    ask("sbatch", "-p", "urgent", "-N", str(len(NODES)), "--exclusive", "-o", "/dev/null", "--wrap", "true")
    wait_for(lambda: len(list(site.root.glob("runs/*/*/attempts/2.json"))) >= 1)
    finish(site, spec, "few")  # with the winner on fresh seeds
    counts = sorted(attempts(site.root).values())
    assert len(counts) == 5 and counts[-1] == 2 and counts[0] == 1
    records = Store(site.root).records(attempts(site.root)).values()
    assert {record.steps for record in records} == {8}
    best = min(records, key=lambda record: record.metrics["val_loss"])
    assert best.config["optimizer"]["hyper"] == {"lr": 0.1}
    for record in records:
        lines = Store(site.root).files(record.key).metrics.read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [*range(1, 9)]
    assert "plain" in site("table").stdout
