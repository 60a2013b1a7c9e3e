"""Which runs of a sweep are trained as one, and that a sweep of stacks is the sweep of its runs alone."""

import json
import os
import re
import signal

import pytest

from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.sweeps.run.stacking import stack_kind
from htbench.sweeps.spec import sweep_file
from tests.helpers.command import Htbench
from tests.helpers.sweeping import check_whole, results
from tests.helpers.waiting import wait_for

SPEC = """
name: tiny
stack: auto
base:
  {task: pydocs, model: llama-s1, steps: 20, batch_size: 16, log_every: 5, checkpoint.every_steps: 5}
seeds: [0, 1]
space: {optimizer.name: [muon], optimizer.lr: [0.01, 0.02]}
replicate: {seeds: 2}
"""
RUN = {"task": "pydocs", "model": "llama-s1", "optimizer.name": "muon", "optimizer.lr": 0.01, "steps": 9}


def kind(has_gpu=False, wanted="auto", **settings):
    settings = {name.replace("__", "."): value for name, value in settings.items()}
    return stack_kind(resolve_config(RUN | settings), wanted, has_gpu=has_gpu)


def test_seeds_rates_and_decays_may_differ():
    assert kind() == kind(seed=1) == kind(data_seed=5) == kind(optimizer__lr=0.02)
    assert kind() == kind(optimizer__weight_decay=0.01) == kind(optimizer__aux_lr=0.01)
    assert None is not kind(compile=True) != kind() != kind(optimizer__momentum=0.9)
    assert kind() != kind(steps=8) != kind(schedule__warmup=0.5)
    assert kind(optimizer__name="htmuon", optimizer__p=0.25) != kind(optimizer__name="htmuon")


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "gpt2-nano"},
        {"micro_batch": 4, "batch_size": 8},
        {"processes": 2},
        {"precision__autocast": "bfloat16"},
        {"precision__params": "bfloat16"},
        {"spectra__updates": [0.5]},
        {"model": "llama-nano"},  # no quicker on a CPU
        {"wanted": 1},
    ],
)
def test_others_are_trained_alone(settings):
    assert kind(**settings) is None


def test_a_wide_model_is_stacked_on_a_gpu_or_where_the_file_says_so():
    assert kind(model="llama-s3", wanted=4).most == 4
    assert kind(model="llama-s3", has_gpu=True).most == 16
    assert kind(model="llama-s3", has_gpu=True, device="cpu") is None
    assert kind(has_gpu=True, precision__params="bfloat16") is not None


@pytest.mark.parametrize("wrong", ["some", 0, -1, 2.5])
def test_a_wrong_size_is_named(write_spec, wrong):
    text = SPEC.replace("stack: auto", f"stack: {wrong}")
    with pytest.raises(UsageError, match=re.escape(repr(wrong))):
        sweep_file.load(write_spec(text))


def test_a_sweep_of_stacks_is_that_of_its_runs_alone_and_a_kill_loses_nothing(tmp_path, write_spec):
    alone, stacked = Htbench(tmp_path / "alone"), Htbench(tmp_path / "stacked")
    file = write_spec(SPEC)
    alone("sweep", "run", write_spec(SPEC.replace("auto", "1"), "alone.yaml"), "--workers", 2)
    (plan,) = json.loads(stacked("sweep", "plan", file, "--json", "--no-measure").stdout)
    assert plan["stacked"] == 4
    process = stacked.start("sweep", "run", file, "--workers", 2)

    def owners():
        begun = stacked.root.glob("runs/*/*/attempts/1.json")
        return [json.loads(path.read_text())["owner"]["pid"] for path in begun]

    wait_for(lambda: len(owners()) == 4 and list(stacked.root.glob("runs/*/*/checkpoint.pt")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert [owners().count(pid) for pid in set(owners())] == [2, 2], "each worker has its share as one stack"
    stacked("sweep", "run", file, "--workers", 2)
    check_whole(tmp_path / "stacked")
    assert results(tmp_path / "stacked") == results(tmp_path / "alone")
