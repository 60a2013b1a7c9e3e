"""Which device a run gets, and the node that breaks its promise of GPUs."""

import pytest
import torch

from harness.errors import NodeError
from harness.parallel import device
from harness.parallel.group import Group
from harness.system import slurm


@pytest.fixture
def job(monkeypatch):
    """This process is part of a job that asked for a GPU, on a node without one."""
    monkeypatch.setenv(slurm.GPUS_VARIABLE, "1")
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-03")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_a_node_that_shows_no_gpu_to_a_job_that_asked_for_one_is_named(job, wanted):
    with pytest.raises(NodeError) as caught:
        device.choose(wanted)
    assert str(caught.value) == (
        "Node gpu-03 shows 0 of 1 GPUs that the job was promised; the run waits for the next "
        "`htbench sweep submit`, and `exclude: gpu-03` among the resources keeps jobs off that node."
    )


def test_a_gpu_that_fails_at_its_first_use_is_none(job, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def fail():
        raise RuntimeError("CUDA error: system not yet initialized")

    monkeypatch.setattr(torch.cuda, "get_device_properties", fail)
    with pytest.raises(NodeError, match="Node gpu-03 shows 0 of 1 GPUs"):
        device.choose("auto")
    monkeypatch.delenv(slurm.GPUS_VARIABLE)
    with pytest.raises(RuntimeError, match="not yet initialized"):
        device.choose("auto")


@pytest.mark.parametrize(("wanted", "promised"), [("auto", "0"), ("auto", ""), ("cpu", "1")])
def test_the_cpu_is_for_those_who_were_promised_nothing_or_want_it(job, monkeypatch, wanted, promised):
    monkeypatch.setenv(slurm.GPUS_VARIABLE, promised)
    assert device.choose(wanted) == "cpu"


def test_of_many_nodes_those_that_show_too_few_are_named(job, monkeypatch):
    seen = [("n1", "a"), ("n1", "b"), ("n2", "c"), ("n2", "c"), ("n3", ""), ("n3", "")]
    monkeypatch.setattr(Group, "all_gather", lambda self, value: seen)
    with pytest.raises(NodeError, match="Node n2 shows 1 of 2, node n3 shows 0 of 2 GPUs .*`exclude: n2`"):
        device.choose("auto", Group(size=6))
