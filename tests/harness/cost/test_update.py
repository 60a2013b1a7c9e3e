"""One update as it is counted, beside the simulation of an update, for every row of the zoo."""

import pytest

from harness.cost import kept, shapes, update
from optimizers.zoo.registry import PERIODS, ZOO
from tests.helpers.counted import config_of

NANO = ("pydocs", "llama-nano")
# One row of each class in the quick suite.
QUICK = {ZOO[name].target: name for name in reversed(ZOO)}.values()
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ZOO]
PERIODIC = {name: period for name in ZOO for period in PERIODS if period in ZOO[name].params}
OTHERS = [
    ("glyphs", "resnet-nano", "muon", {"precision.autocast": "bfloat16"}),
    ("glyphs", "vit-nano", "soap", {"micro_batch": 2, "activation_checkpointing": True}),
    ("pydocs", "gpt2-nano", "sophia", {"precision.params": "bfloat16"}),
    ("pydocs", "llama-nano", "htmuon", {"processes": 2, "shard_optimizer": False}),
]


def check(config, device, shared=False):
    sizes = shapes.of(config)
    counted, simulated = update.count(config, sizes, device), kept.simulate(config, sizes, device)
    work, memory = simulated.work, simulated.memory
    assert counted.flops_per_step == pytest.approx(work.per_step - work.optimizer, rel=1e-12)
    assert counted.optimizer_flops_per_step == pytest.approx(work.optimizer, rel=1e-12)
    assert (counted.parameters, counted.matrix_parameters) == (work.parameters, work.matrix)
    assert (counted.weights, counted.gradients) == (memory.weights, memory.gradients)
    within = 0.06 if shared else 0  # several processes divide the parameters by another guess of seconds
    assert counted.states == pytest.approx(memory.states, rel=within)
    assert counted.peak == pytest.approx(memory.peak, rel=within)


@pytest.fixture(params=["real", "fake"])
def tensors(request, monkeypatch):
    """Real ones, as in small models, or those without memory, as in large ones."""
    if request.param == "fake":
        monkeypatch.setattr(update, "_SMALL", 0)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", EVERY)
def test_every_row(name, device, tensors):
    check(config_of(*NANO, name), device)


@pytest.mark.parametrize("name", [one for one in PERIODIC if one in QUICK])
def test_dear_steps_now_and_then(name, tensors):
    check(config_of(*NANO, name, **{f"optimizer.{PERIODIC[name]}": 7}), "cpu")


@pytest.mark.parametrize("name", [pytest.param(one.values[0], marks=one.marks) for one in EVERY])
def test_two_processes_that_own_parameters(name, tensors):
    check(config_of(*NANO, name, processes=2), "cpu", shared=True)


@pytest.mark.parametrize(("task", "model", "name", "settings"), OTHERS, ids=lambda one: str(one)[:12])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_other_models_and_settings(task, model, name, settings, device, tensors):
    check(config_of(task, model, name, **settings), device)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["muon", "htmuon", "soap"])
def test_a_large_model(name, device):
    check(config_of("c4", "llama-60m", name, batch_size=512, **{"precision.params": "bfloat16"}), device)
