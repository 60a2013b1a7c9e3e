"""`htbench doctor --sbatch` on a real SLURM, whose nodes are hosts of their own: what a job sees there."""

import json
import os
import re
import signal
import socket

import pytest

from harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED
from tests.helpers.on_cluster import FEW, NODES, ask, cluster, held, queue, site, wait_for
from tests.slurm.test_slurm_containers import inside

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "inside", "site"]  # fixtures
HOST = socket.gethostname()


def look(site, spec, *words):
    """The exit status, and the findings as (level, subject, finding)."""
    done = site("doctor", "--json", "--sbatch", spec, *words)
    assert done.stdout, done.stderr
    assert {path.name for path in site.root.iterdir()} <= {".submit.lock", "code"}, "nothing is left"
    rows = json.loads(done.stdout)
    return done.returncode, [(one["level"], one["subject"], one["finding"]) for one in rows]


def the(found, subject):
    return [(level, finding) for level, of, finding in found if of == subject]


def with_resources(text):
    return FEW.replace("timeout_min: 20", text)


def test_all_is_well(site, write_spec):
    status, found = look(site, write_spec(FEW))
    assert (status, [one for one in found if one[0] != "ok"]) == (0, [])
    ((_, job),) = the(found, "job")
    (node,) = re.fullmatch(r"\d+ on node (\w+): few: sgdm", job).groups()
    assert node in NODES and node != HOST
    locks = [finding for _, finding in the(found, "locks")]
    assert locks == ["flock works", f"a lock that {HOST} holds keeps {node} out"]
    assert the(found, "data") == [("ok", f"digits: the same as on {HOST}")]
    wait_for(lambda: not queue())


def test_each_node_of_a_job_is_looked_at(site, write_spec):
    text = with_resources("nodes: 2, mem: 500M").replace("steps: 20", "steps: 20, processes: 4")
    status, found = look(site, write_spec(text))
    assert (status, [one for one in found if one[0] != "ok"]) == (0, [])
    nodes = [re.match(r"\d+ on node (\w+): few: sgdm \(nodes=2, ", job)[1] for _, job in the(found, "job")]
    assert len(set(nodes)) == 2
    assert all(finding.endswith("; 0.5 GiB granted") for _, finding in the(found, "memory"))


def test_a_line_of_setup_that_fails(site, write_spec):
    setup = "timeout_min: 20, setup: ['echo there is no module torch', 'exit 3']"
    status, ((level, _, finding),) = look(site, write_spec(with_resources(setup)))
    assert (status, level) == (EXIT_RUN_FAILED, "problem")
    assert finding.endswith("ended early: setup line 2 exited with 3: exit 3 (there is no module torch)")


def test_gpus_that_torch_cannot_use(site, write_spec):
    """The cluster hands out devices that are none, as a node with a broken driver does."""
    status, found = look(site, write_spec(with_resources("gpus_per_node: 1")))
    assert status == EXIT_RUN_FAILED
    ((subject, finding),) = [(subject, finding) for level, subject, finding in found if level == "problem"]
    assert subject == "gpus"
    assert re.match(r"n\d shows torch 0 of 1 GPUs that were asked for, though SLURM gave the job 1", finding)
    on_cpu = with_resources("gpus_per_node: 1").replace("steps: 20", "steps: 20, device: cpu")
    assert look(site, write_spec(on_cpu))[0] == 0


def test_gpus_that_no_node_has(site, write_spec):
    text = with_resources("gpus_per_node: 8").replace("steps: 20", "steps: 20, processes: 8")
    status, ((level, _, finding),) = look(site, write_spec(text))
    assert (status, level) == (EXIT_RUN_FAILED, "problem")
    assert "SLURM does not take it" in finding and "node configuration is not available" in finding
    assert not queue()


def test_a_job_in_a_container(site, inside, write_spec):
    status, found = look(site, write_spec(with_resources(inside)))
    assert (status, [one for one in found if one[0] != "ok"]) == (0, [])
    ((_, said),) = the(found, "slurm")
    assert said.startswith("no scontrol and no squeue here: the job's script queues a run again")


def test_a_container_that_nodes_lack(site, write_spec):
    status, ((_, _, finding),) = look(site, write_spec(with_resources("container: /no/torch.sif")))
    assert status == EXIT_RUN_FAILED
    assert "apptainer: No such file" in finding or "could not open image /no/torch.sif" in finding


def test_a_job_that_waits_is_cancelled_by_patience_and_by_ctrl_c(site, held, write_spec):
    status, ((_, _, finding),) = look(site, write_spec(FEW), "--patience", 5)
    assert status == EXIT_RUN_FAILED and not queue()
    assert re.search(r"still waits \(PartitionDown\) after 5 s; it is cancelled", finding)
    site.fresh = True
    process = site.start("doctor", "--sbatch", write_spec(FEW))
    wait_for(queue)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == EXIT_INTERRUPTED
    wait_for(lambda: not queue())
    assert {path.name for path in site.root.iterdir()} == {".submit.lock", "code"}


def test_what_a_killed_submitter_left_is_cleared_by_the_next(site, held, write_spec):
    site.fresh = True
    process = site.start("doctor", "--sbatch", write_spec(FEW))
    wait_for(queue)
    (left,) = queue()
    process.kill()
    process.communicate(timeout=300)
    assert ask("squeue", "-h", "-j", left, "-o", "%j").startswith("htbench-doctor-")
    look(site, write_spec(FEW), "--patience", 1)
    assert not queue()
