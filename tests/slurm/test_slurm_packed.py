"""Jobs with several runs on a real SLURM: under fire, one run killed, a search, the time limit."""

import os
import re
import signal

import pytest

from tests.helpers.command import Htbench
from tests.helpers.fire import Fire, tell
from tests.helpers.on_cluster import (
    FEW,
    accepted,
    ask,
    attempt,
    attempts,
    cluster,
    finish,
    finish_search,
    hold,
    let_go,
    owner,
    queue,
    run_folders,
    site,
    submitted,
    wait_for,
)
from tests.helpers.searching import SEARCH
from tests.helpers.sweeping import results

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

SECONDS = 25  # of fire
SIXTY = """
name: sixty
base: {task: digits, model: resnet-nano, steps: 40, batch_size: 16, checkpoint.every_steps: 5, log_every: 5}
blocks:
  - name: sgdm
    set: {optimizer.name: sgdm}
    space: {optimizer.lr: {low: 0.001, high: 0.1, log: true, num: 60}}
resources: {timeout_min: 20, runs_per_job: 6, runs_at_once: 2}
"""
THREE = FEW.replace("timeout_min: 20", "timeout_min: 20, runs_per_job: 3, runs_at_once: 3")
ENDLESS = "steps: 1000000, divergence.patience: 1000000, checkpoint.every_steps: 5, log_every: 5"


def test_sixty_runs_in_ten_jobs_under_fire_end_as_undisturbed_ones(site, cluster, write_spec, tmp_path):
    spec = write_spec(SIXTY)
    fire = Fire(site, cluster, spec, seed=2)
    fire.burn(SECONDS)
    first, *_ = submitted(site.root, "sixty")
    assert len(first["points"]) == 60 and first["runs_per_job"] == 6
    finish(site, spec, "sixty", "--retry", failures=True)
    tell("packed", fire, site)
    assert len(attempts(site.root)) == 60 < sum(attempts(site.root).values())
    calm = Htbench(tmp_path / "calm")
    assert calm("sweep", "run", spec, timeout=3600).returncode == 0
    assert results(site.root, "sixty") == results(calm.root, "sixty")


def test_killing_one_run_leaves_its_neighbours_alone(site, write_spec):
    spec = write_spec(THREE.replace("steps: 20", ENDLESS))
    assert accepted(site, spec) == 3
    (job,) = queue()
    folders = run_folders(site.root, "few")
    hold(*folders)
    os.kill(owner(folders[1])["pid"], signal.SIGKILL)  # as the kernel does
    let_go(folders[0], folders[2])
    wait_for(lambda: (folders[1] / "attempts" / "2.json").exists())
    wait_for(lambda: re.search(r"going on from step \d+", (folders[1] / "log.txt").read_text()))
    assert queue() == {job: "RUNNING"}, "in the same job"
    ask("scancel", job)
    wait_for(lambda: not queue())
    assert [len(list((folder / "attempts").iterdir())) for folder in folders] == [1, 2, 1]
    ends = [attempt(folders[0]), attempt(folders[1], 2), attempt(folders[2])]
    assert [one["outcome"]["reason"] for one in ends] == ["stopped"] * 3, "all saved when it was cancelled"


def test_what_a_job_cannot_finish_in_its_time_it_comes_back_for_once(site, write_spec):
    spec = write_spec(THREE.replace("steps: 20", "steps: 200, checkpoint.every_steps: 5, log_every: 5"))
    assert accepted(site, spec) == 3
    (job,) = queue()
    folders = run_folders(site.root, "few")
    hold(*folders)
    ask("scancel", "--signal=USR2", job)  # as SLURM does before the time limit
    let_go(*folders)
    wait_for(lambda: not queue())
    assert all((folder / "record.json").exists() for folder in folders)
    assert list(attempts(site.root).values()) == [2, 2, 2]
    assert {attempt(folder)["outcome"]["reason"] for folder in folders} == {"stopped"}
    assert {(owner(folder, 2)["job"], owner(folder, 2)["restart"]) for folder in folders} == {(job, "1")}
    finish(site, spec, "few")


def test_the_jobs_of_a_search_fill_its_slots(site, write_spec):
    text = SEARCH.replace("trials: 4", "trials: 7")
    spec = write_spec(text + "resources: {timeout_min: 20, runs_per_job: 4, runs_at_once: 2}\n")
    assert accepted(site, spec) == 7
    wait_for(lambda: not queue())
    assert len(attempts(site.root)) == 7, "by two jobs"
    owners = {owner(folder)["job"] for folder in site.root.glob("runs/*/*")}
    logs = list(site.root.glob("sweeps/tiny/logs/*/*_log.out"))
    assert len(owners) == 2 and len(logs) == 2 + 7, "of each job and each run"
    finish_search(site, spec)
    assert set(attempts(site.root).values()) == {1}
