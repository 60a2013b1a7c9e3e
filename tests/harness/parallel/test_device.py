"""Which device a run gets, and the node that breaks its promise of GPUs."""

import pytest
import torch

from htbench.harness.errors import NodeError, UsageError
from htbench.harness.parallel import device
from htbench.harness.parallel.group import Group
from htbench.harness.system import machine, slurm


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
    monkeypatch.setattr(Group, "all_gather", lambda self, value: [(*one, None) for one in seen])
    with pytest.raises(NodeError, match="Node n2 shows 1 of 2, node n3 shows 0 of 2 GPUs .*`exclude: n2`"):
        device.choose("auto", Group(size=6))


# --- a GPU that torch can't use ---

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for  x86_64  570.86.15  Release Build\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """A machine whose `nvidia-smi` says so (None: it has none), and a torch for CUDA that sees no GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.delenv(slurm.GPUS_VARIABLE, raising=False)
    monkeypatch.setattr(machine, "_DEV", tmp_path)
    monkeypatch.setattr(machine, "_DRIVER", tmp_path / "version")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def show(smi, cuda, file="", device="nvidia0"):
        monkeypatch.setattr(machine, "ask", lambda *words: (smi is not None, smi or "no such file"))
        monkeypatch.setattr(torch.version, "cuda", cuda)
        (tmp_path / "version").write_text(file)
        (tmp_path / device).touch()

    return show


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
@pytest.mark.parametrize("promised", ["", "1"])
@pytest.mark.parametrize(
    ("smi", "cuda", "file", "driver", "needed"),
    [
        ("535.129.03", "13.0", "", "535.129.03", 580),
        ("535.129.03\n535.129.03", None, "", "535.129.03", None),
        (None, "13.0", OPEN, "570.86.15", 580),  # in a container, say, that has no nvidia-smi
        (None, "12.6", CLOSED.replace("535", "470"), "470.129.03", 525),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_refused_and_no_node_is_blamed(
    shown, monkeypatch, wanted, promised, smi, cuda, file, driver, needed
):
    monkeypatch.setenv(slurm.GPUS_VARIABLE, promised)
    shown(smi, cuda, file)
    why = machine.unused_gpu(torch.__version__, cuda)
    assert (why["driver"], why["cuda"], why["needed"]) == (driver, cuda, needed)
    with pytest.raises(UsageError, match=f"driver {driver}"):
        device.choose(wanted)
    assert device.choose("cpu") == "cpu"


def test_a_driver_that_fits_and_shows_torch_nothing_is_a_fault_of_the_node_if_it_promised(shown, monkeypatch):
    shown("580.65.06", "13.0")
    with pytest.raises(UsageError, match="driver 580.65.06"):
        device.choose("auto")
    monkeypatch.setenv(slurm.GPUS_VARIABLE, "1")
    with pytest.raises(NodeError, match="shows 0 of 1"):
        device.choose("auto")


@pytest.mark.parametrize(
    ("smi", "file", "device_file", "hidden"),
    [
        (None, "", "null", None),  # no GPU
        (None, CLOSED, "null", None),  # a container that was given none: it has the kernel's file
        ("No devices were found", "", "null", None),  # a job that asked for none
        ("535.129.03", CLOSED, "nvidia0", ""),
        ("535.129.03", CLOSED, "nvidia0", "-1"),
        ("535.129.03", CLOSED, "nvidia0", "NoDevFiles"),
    ],
)
def test_without_a_gpu_that_is_for_us_runs_use_the_cpu(shown, monkeypatch, smi, file, device_file, hidden):
    shown(smi, "13.0", file, device_file)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert device.choose("auto") == "cpu"


def test_a_device_that_cannot_be_opened_is_not_ours(shown, monkeypatch):
    """The cgroup of a job without GPUs lists them in /dev and refuses to open them."""
    shown(None, "13.0", CLOSED)

    def refused(*words):
        raise PermissionError

    monkeypatch.setattr(machine.os, "open", refused)
    assert device.choose("auto") == "cpu"
