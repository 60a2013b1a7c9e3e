"""The state of an optimizer before it exists, beside that of a real one."""

from functools import cache

import pytest
import torch

from harness.cost import kept, shapes, steps
from harness.cost.steps import memory_of
from optimizers.base import UpdateRule
from optimizers.zoo.registry import ZOO
from tests.helpers.counted import Step, config_of


@cache
def estimated(name, device="cpu", task="pydocs", model="llama-nano"):
    config = config_of(task, model, name)
    return steps.run(config, shapes.of(config), device)


def real(name, task="pydocs", model="llama-nano"):
    step = Step(config_of(task, model, name))
    for number in range(2):  # the second step of SOAP makes the moments
        for p in step.model.parameters():
            p.grad = torch.randn_like(p)
        if number == 0 and isinstance(step.optimizer, UpdateRule):
            step.optimizer.observe_curvature(1)
        step.optimizer.step()
    return memory_of(step.optimizer.state)


# One row of each class in the quick suite.
QUICK = {ZOO[name].target: name for name in reversed(ZOO)}.values()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ZOO]
)
def test_the_state_is_that_of_a_real_optimizer(name):
    assert estimated(name).state == real(name)


@pytest.mark.parametrize(
    "name", ["galore", *(pytest.param(name, marks=pytest.mark.slow) for name in ("adamw", "muon", "soap"))]
)
def test_kernels_and_biases(name):
    found = estimated(name, task="digits", model="resnet-nano")
    assert found.state == real(name, "digits", "resnet-nano")


@pytest.mark.parametrize("name", ["muon"])
def test_a_gpu_keeps_the_same_state(name):
    assert estimated(name, "cuda").state == estimated(name).state


def test_processes_share_the_state():
    alone = estimated("adamw").state
    shared = kept.simulate(config := config_of("pydocs", "llama-nano", processes=2), shapes.of(config)).memory
    assert alone / 2 <= shared.states < 0.7 * alone
    config = config_of("pydocs", "llama-nano", processes=2, shard_optimizer=False)
    assert kept.simulate(config, shapes.of(config)).memory.states == alone
