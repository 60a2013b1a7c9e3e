"""A program that is not ours on a real SLURM: preempted it goes on in its folder, and there is a table."""

import json

import pytest

from htbench.harness.store import Store
from tests.helpers.on_cluster import (
    NODES,
    accepted,
    ask,
    attempts,
    cluster,
    finish,
    site,
    until_done,
    wait_for,
)
from tests.helpers.toy_program import SPEC, TRAIN, TWO_PROCESSES, TWO_PROCESSES_SPEC, write_scikit_learn

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

SLOW = SPEC[: SPEC.index("  - {name: quick")].replace("  resume", "  env: {PAUSE: 1.0}\n  resume")
RESOURCES = "resources: {timeout_min: 20, partition: low}\n"
SLOW += "replicate: {seeds: 2}\n" + RESOURCES


@pytest.mark.short
def test_a_preempted_program_goes_on_in_its_folder(site, cluster, tmp_path):
    cluster("warn-before-preemption")
    home = tmp_path / "home"
    home.mkdir()
    (home / "train.py").write_text(TRAIN)
    spec = home / "tiny.yaml"
    spec.write_text(SLOW)
    assert accepted(site, spec) == 3
    wait_for(lambda: len(list(site.root.glob("runs/*/*/program/step"))) == 3)
    ask("sbatch", "-p", "urgent", "-N", str(len(NODES)), "--exclusive", "-o", "/dev/null", "--wrap", "true")
    wait_for(lambda: len(list(site.root.glob("runs/*/*/attempts/2.json"))) >= 1)
    finish(site, spec, "tiny")  # with the winner on fresh seeds
    counts = sorted(attempts(site.root).values())
    assert len(counts) == 5 and counts[-1] == 2 and counts[0] == 1
    records = Store(site.root).records(attempts(site.root)).values()
    assert {record.steps for record in records} == {4}
    best = min(records, key=lambda record: record.metrics["val_loss"])
    assert best.config["optimizer"]["hyper"] == {"lr": 0.1, "rule": "plain"}
    for record in records:
        lines = Store(site.root).files(record.key).metrics.read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [*range(1, 5)]
    assert "plain" in site("table").stdout


def test_scikit_learn_and_two_processes_of_torchrun_on_nodes(site, tmp_path):
    learn = write_scikit_learn(tmp_path, RESOURCES)
    home = tmp_path / "two"
    home.mkdir()
    (home / "train.py").write_text(TWO_PROCESSES)
    two = home / "two.yaml"
    two.write_text(TWO_PROCESSES_SPEC + RESOURCES)
    assert accepted(site, learn) == 3 and accepted(site, two) == 2
    for spec in (learn, two):
        until_done(site, spec)
    assert set(attempts(site.root).values()) == {1}
    records = Store(site.root).records(attempts(site.root)).values()
    assert sorted(record.steps for record in records) == [8] * 2 + [10] * 7
    assert "sgd" in site("table").stdout
