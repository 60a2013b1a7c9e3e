"""Runs on several processes and nodes of a real SLURM (`tests/slurm/run`)."""

import os
import signal

import pytest

from htbench.harness.store import Store
from tests.helpers.command import Htbench
from tests.helpers.on_cluster import (
    accepted,
    ask,
    attempt,
    attempts,
    cluster,
    finish,
    hold,
    let_go,
    owner,
    processes,
    queue,
    run_folders,
    site,
    submitted,
    wait_for,
)
from tests.helpers.sweeping import results

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

SPEC = """
name: multi
base: {task: pydocs, model: llama-nano, steps: 20, batch_size: 16, device: cpu,
  checkpoint.every_steps: 5, log_every: 5}
blocks:
  - name: node
    set: {optimizer.name: adamw, processes: 2}
    space: {optimizer.lr: [0.004]}
    resources: {gpus_per_node: 2}
  - name: nodes
    set: {optimizer.name: adamw, processes: 2}
    space: {optimizer.lr: [0.002]}
    resources: {nodes: 2, gpus_per_node: 1}
resources: {timeout_min: 20, mem: 500M}
"""
LONG = SPEC.replace("steps: 20", "steps: 200")


def assert_as_of_one_process(site, text, write_spec, tmp_path):
    """Figures and curves are those of single processes here, but for the order of sums."""
    alone = text.replace(", processes: 2", "").replace("nodes: 2, gpus_per_node: 1", "")
    here = Htbench(tmp_path / "here")
    done = here("sweep", "run", write_spec(alone.replace("{gpus_per_node: 2}", "{}"), "alone.yaml"))
    assert done.returncode == 0, done.stderr
    ours, theirs = results(site.root, "multi"), results(here.root, "multi")
    assert ours.keys() == theirs.keys() and len(ours) == 2
    for key, (_, status, figures, curve) in theirs.items():
        assert ours[key][1] == status
        assert ours[key][2] == pytest.approx(figures, rel=1e-2)
        for mine, other in zip(ours[key][3], curve, strict=True):
            assert mine == pytest.approx(other, rel=1e-2)


def processes_of(site, job):
    """The processes that train for a job by their rank."""
    tasks = processes(site).items()
    return {int(one["SLURM_PROCID"]): pid for pid, one in tasks if one["SLURM_JOB_ID"] == job}


def test_two_processes_on_one_node_and_on_two(site, write_spec, tmp_path):
    spec = write_spec(SPEC)
    text = site("sweep", "plan", "--sbatch", spec).stdout
    assert text.count("#SBATCH --ntasks-per-node=2") == 1 and text.count("#SBATCH --nodes=2") == 1
    assert accepted(site, spec) == 2
    finish(site, spec, "multi")
    assert list(attempts(site.root).values()) == [1, 1]
    records = Store(site.root).records(attempts(site.root)).values()
    assert [record.environment["world_size"] for record in records] == [2, 2]
    assert_as_of_one_process(site, SPEC, write_spec, tmp_path)


def test_a_warned_run_is_queued_again_once_and_a_killed_process_ends_its_job(site, write_spec, tmp_path):
    spec = write_spec(LONG)
    assert accepted(site, spec) == 2
    jobs = [row["job"] for row in submitted(site.root, "multi") if "job" in row]
    folders = run_folders(site.root, "multi")
    hold(*folders)
    os.kill(processes_of(site, jobs[0])[1], signal.SIGKILL)
    ask("scancel", "--signal=USR2", jobs[1])  # the one on two nodes
    let_go(*folders)
    wait_for(lambda: set(queue()) == {jobs[1]})
    assert accepted(site, spec) == 1, "the killed one"
    finish(site, spec, "multi")
    assert list(attempts(site.root).values()) == [2, 2]
    first = [attempt(folder)["outcome"] for folder in folders]
    assert first == [None, {"reason": "stopped", "message": ""}]
    second = owner(folders[1], 2)
    assert (second["job"], second["restart"]) == (jobs[1], "1")
    assert all((folder / "log.txt").read_text().count("going on from step") == 1 for folder in folders)
    assert_as_of_one_process(site, LONG, write_spec, tmp_path)
