"""`htbench doctor --sbatch` on a real SLURM (`tests/slurm/run`): the node of its job is another host."""

import json
import os
import sys
import time

import pytest

from tests.helpers.on_cluster import FEW, NODES, ask, cluster, held, queue, site, wait_for

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "site"]  # fixtures


def looked(site, spec, *words, status=0):
    """What it finds, by level; nothing of it is left in the queue or in the store."""
    done = site("doctor", "--sbatch", spec, "--json", *words)
    assert done.returncode == status, done.stderr
    wait_for(lambda: not queue())
    assert not list(site.root.glob(".htbench-doctor-*"))
    found = json.loads(done.stdout)
    return {level: [one for one in found if one["level"] == level] for level in ("ok", "note", "problem")}


def words_of(found, subject):
    return " ".join(one["finding"] for one in found if one["subject"] == subject)


def test_a_job_finds_what_it_needs_on_its_node(site, write_spec):
    spec = write_spec(FEW.replace("timeout_min: 20", "timeout_min: 20, cpus_per_task: 1, mem: 500M"))
    found = looked(site, spec)
    assert not found["problem"], found
    told = {one["subject"] for one in found["ok"]}
    assert told >= {"job", "python", "code", "store", "locks", "clock", "slurm", "data", "torch", "imports"}
    (node,) = {name for name in NODES if f" on node {name}: few: sgdm" in words_of(found["ok"], "job")}
    here = os.uname().nodename
    assert f"a lock that {here} holds keeps {node} out" in words_of(found["ok"], "locks")
    assert f"{here} and {node} see what the other writes" in words_of(found["ok"], "store")
    assert words_of(found["ok"], "data") == f"digits: the same as on {here}"
    assert sys.executable in words_of(found["ok"], "python")


@pytest.mark.parametrize(
    "wants, said, advice",
    [
        ("setup: ['false']", "setup line 1 exited with 1: false", "mend that line of `setup`"),
        ("python: /opt/no-such-python", "no-such-python", "must name an interpreter that nodes have"),
        ("container: /images/none.sif", "apptainer", "nodes need apptainer"),
    ],
    ids=["setup", "python", "container"],
)
def test_a_job_that_ends_early_tells_its_first_error(site, write_spec, wants, said, advice):
    found = looked(site, write_spec(FEW.replace("timeout_min: 20", f"timeout_min: 20, {wants}")), status=1)
    (one,) = found["problem"]
    assert one["subject"] == "job" and "ended early" in one["finding"] and said in one["finding"]
    assert advice in one["advice"]


def test_a_node_without_the_gpus_that_it_has_promised_is_told(site, write_spec):
    found = looked(site, write_spec(FEW.replace("timeout_min: 20", "gpus_per_node: 1")), status=1)
    (one,) = found["problem"]
    assert one["subject"] == "gpus" and "shows torch 0 of 1 GPUs that were asked for" in one["finding"]


def test_a_job_that_nothing_starts_is_cancelled_after_a_while(site, write_spec, held):
    began = time.monotonic()
    found = looked(site, write_spec(FEW), "--patience", "3", status=1)
    (one,) = found["problem"]
    assert "still waits (PartitionDown) after 3 s; it is cancelled" in one["finding"]
    assert time.monotonic() - began < 150, "30 s at five times the load"


def test_nothing_of_it_counts_as_a_job_of_the_sweep(site, write_spec, held):
    spec = write_spec(FEW)
    waiting = site.start("doctor", "--sbatch", spec)
    wait_for(queue)
    assert "3 submitted" in site("sweep", "submit", spec).stdout
    assert "3 jobs cancelled" in site("sweep", "cancel", spec).stdout
    wait_for(lambda: len(queue()) == 1)
    assert ask("squeue", "-h", "-o", "%j").startswith("htbench-doctor-")
    ask("scancel", "-u", "root")
    out, _ = waiting.communicate(timeout=240)
    assert waiting.returncode == 1 and "problem  job" in out
