"""The nodes of the test cluster are hosts of their own: what jobs see of others (`tests/slurm/run`)."""

import os
import socket

import pytest

from tests.helpers.on_cluster import (
    LONG,
    NODES,
    accepted,
    ask,
    cluster,
    hold,
    identity,
    let_go,
    owner,
    pid_here,
    run_folders,
    site,
)

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures


def command_on(node, pid):
    """What a job on a node finds under the number of a process; empty if there is none."""
    return ask("srun", "-Q", "-w", node, "sh", "-c", f"cat /proc/{pid}/cmdline 2>/dev/null || true")


def test_a_job_sees_the_processes_of_its_node_only(site, write_spec):
    said = ask(
        "srun", "-Q", "-N", str(len(NODES)), "sh", "-c", "echo $(hostname) $(readlink /proc/self/ns/pid)"
    )
    name_spaces = dict(line.split() for line in said.splitlines())
    assert set(name_spaces) == set(NODES), "each is called as SLURM calls it"
    assert len({*name_spaces.values(), os.readlink("/proc/self/ns/pid")}) == len(NODES) + 1

    text = LONG.replace("0.2, 0.3]", "0.2]").replace("timeout_min: 20", "timeout_min: 20, cpus_per_task: 3")
    assert accepted(site, write_spec(text)) == 3, "a node has four cores"
    folders = run_folders(site.root, "few")
    hold(*folders)
    owners = [owner(folder) for folder in folders]
    assert {one["host"] for one in owners} == set(NODES) and socket.gethostname() not in NODES
    for one in owners:
        assert identity(one)[0] == name_spaces[one["host"]]
        assert str(site.root) in command_on(one["host"], one["pid"])
        for node in set(NODES) - {one["host"]}:
            assert str(site.root) not in command_on(node, pid_here(one)), "nodes count by themselves"
    let_go(*folders)
