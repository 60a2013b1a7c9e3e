"""`htbench doctor --sbatch` on a real SLURM, whose nodes are hosts of their own: what its job tells."""

import json
import os
import re
import signal

import pytest

from htbench.harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED
from tests.helpers.on_cluster import FEW, NODES, cluster, held, queue, site, wait_for
from tests.slurm.test_slurm_containers import inside

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "inside", "site"]  # fixtures


def look(site, spec, *words):
    """The exit status, the findings as (level, finding), and the logs."""
    done = site("doctor", "--json", "--sbatch", spec, *words)
    assert done.stdout, done.stderr
    rows = json.loads(done.stdout)
    assert {one["subject"] for one in rows} == {"job"}
    return done.returncode, [(one["level"], one["finding"]) for one in rows], done.stderr


def with_resources(text):
    return FEW.replace("timeout_min: 20", text)


def test_all_is_well(site, write_spec):
    status, ((level, finding),), log = look(site, write_spec(FEW))
    assert (status, level) == (0, "ok"), log
    (node,) = re.match(r"job \d+ on node (\w+) \(few sgdm\) found no problem; its log is ", finding).groups()
    assert node in NODES and re.search(r"^ok +root ", log, re.MULTILINE)
    wait_for(lambda: not queue())


def test_each_node_of_a_job_runs_it(site, write_spec):
    text = with_resources("nodes: 2, mem: 500M").replace("steps: 20", "steps: 20, processes: 4")
    status, _, log = look(site, write_spec(text))
    assert status == 0 and len(re.findall(r"^ok +root ", log, re.MULTILINE)) == 2


def test_a_line_of_setup_that_fails(site, write_spec):
    setup = "timeout_min: 20, setup: ['echo there is no module torch', 'exit 3']"
    status, ((level, finding),), _ = look(site, write_spec(with_resources(setup)))
    assert (status, level) == (EXIT_RUN_FAILED, "problem")
    assert (
        "ended as FAILED: setup line 2 exited with 3: exit 3 (there is no module torch); its log" in finding
    )


def test_gpus_that_no_node_has(site, write_spec):
    text = with_resources("gpus_per_node: 8").replace("steps: 20", "steps: 20, processes: 8")
    status, ((level, finding),), _ = look(site, write_spec(text))
    assert (status, level) == (EXIT_RUN_FAILED, "problem")
    assert "SLURM does not take it" in finding and "node configuration is not available" in finding
    assert not queue()


def test_a_job_in_a_container(site, inside, write_spec):
    status, ((level, _),), log = look(site, write_spec(with_resources(inside)))
    assert (status, level) == (0, "ok"), log


def test_a_container_that_nodes_lack(site, write_spec):
    status, ((_, finding),), _ = look(site, write_spec(with_resources("container: /no/torch.sif")))
    assert status == EXIT_RUN_FAILED
    assert "apptainer: No such file" in finding or "could not open image /no/torch.sif" in finding


def test_a_job_that_waits_is_cancelled_by_patience_and_by_ctrl_c(site, held, write_spec):
    status, ((_, finding),), _ = look(site, write_spec(FEW), "--patience", 5)
    assert status == EXIT_RUN_FAILED and not queue()
    assert "still PENDING after 5 s; it is cancelled" in finding
    site.fresh = True
    process = site.start("doctor", "--sbatch", write_spec(FEW))
    wait_for(queue)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == EXIT_INTERRUPTED
    wait_for(lambda: not queue())
