"""What a step computes, beside what torch's FLOP counter sees in a real one."""

import pytest
import torch

from htbench.harness.cost import update
from htbench.harness.cost.estimate import count
from htbench.harness.cost.watch import Watch, decomposing, eigh, qr, svd
from htbench.optimizers.spectral import products
from tests.helpers.counted import Step, config_of, operations

NANO = {
    "llama-nano": "pydocs",
    "gpt2-nano": "pydocs",
    "resnet-nano": "glyphs",
    "vit-nano": "glyphs",
}
RECOMPUTING = [name for name in NANO if name != "resnet-nano"]
AGAIN = {"activation_checkpointing": True}


@pytest.fixture(autouse=True)
def without_memory(monkeypatch):
    monkeypatch.setattr(update, "_SMALL", 0)
    monkeypatch.setattr(products, "_NATIVE_BFLOAT16", False)  # as on every CPU that a count is for


def check(config):
    step, counted = Step(config), count(config, "cpu")
    assert counted.flops_per_step == operations(step.gradients)
    step.optimizer.step()
    assert counted.optimizer_flops_per_step == operations(step.optimizer.step)


@pytest.mark.parametrize("name", NANO)
def test_operations_are_those_of_a_real_step(name):
    check(config_of(NANO[name], name))


@pytest.mark.parametrize("name", ["muon", "htmuon", "cosmos"])
def test_operations_of_optimizers_are_those_of_a_real_step(name):
    check(config_of("pydocs", "llama-nano", name))


@pytest.mark.parametrize("name", RECOMPUTING)
def test_operations_with_activation_checkpointing(name):
    config = config_of(NANO[name], name, **AGAIN, micro_batch=2)
    check(config)
    once = count(config_of(NANO[name], name), "cpu")
    assert count(config, "cpu").flops_per_step > 1.15 * once.flops_per_step


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, AGAIN], ids=["kept", "again"])
def test_operations_of_llama_60m(settings):
    check(config_of("c4", "llama-60m", "muon", batch_size=1, **settings))


def test_the_chunked_loss_makes_three_products_of_the_head():
    head = 3 * 2 * 4 * 32 * 48  # for a word of the vocabulary
    whole, small = (config_of(task, "llama-nano", seq_len=32) for task in ("c4", "pydocs"))
    body = count(small, "cpu").flops_per_step - 320 * head
    assert count(whole, "cpu").flops_per_step == 32000 * head + body


def test_attention_counts_two_products_forward_and_five_backward():
    short, long = (
        count(config_of("pydocs", "llama-nano", seq_len=t), "cpu").flops_per_step for t in (32, 64)
    )
    scores = 2 * 4 * 2 * 48  # a product's FLOPs per pair of positions: 4 samples, 2 layers, 48 wide
    assert long - 2 * short == 7 * scores * (64**2 - 2 * 32**2)


def test_micro_batches_and_processes_do_not_change_the_work():
    one = count(config_of("pydocs", "llama-nano", batch_size=8), "cpu")
    for settings in ({"micro_batch": 2}, {"processes": 2}):
        other = count(config_of("pydocs", "llama-nano", batch_size=8, **settings), "cpu")
        assert other.flops_per_step == one.flops_per_step
    assert one.parameters == 86256
    assert 0 < one.matrix_parameters < one.parameters


# --- dear steps now and then ---


@pytest.mark.parametrize(
    ("name", "period", "settings"),
    [
        ("soap", "precondition_frequency", {}),
        ("galore", "update_gap", {"optimizer.rank": 8}),
        ("htmuon", "interval", {"optimizer.spectral": "svd_power"}),
    ],
)
def test_a_dear_step_every_so_many_counts_by_its_share(name, period, settings):
    """An SVD has fewer operations than Newton-Schulz, and is the dear step all the same."""
    costs = {
        every: count(
            config_of("pydocs", "llama-nano", name, **settings, **{f"optimizer.{period}": every}), "cpu"
        ).optimizer_flops_per_step
        for every in (1, 2, 10)
    }
    cheap = 2 * costs[2] - costs[1]
    assert costs[10] == pytest.approx(0.9 * cheap + 0.1 * costs[1])
    assert costs[2] != costs[1]


def test_sophias_second_pass_counts_as_the_optimizers():
    config = config_of("pydocs", "llama-nano", "sophia", **{"optimizer.curvature_interval": 5})
    counted = count(config, "cpu")
    assert counted.optimizer_flops_per_step == pytest.approx(counted.flops_per_step / 5)


def test_a_gpu_multiplies_whole_stacks():
    config = config_of(
        "pydocs", "llama-60m", "muon", batch_size=1, seq_len=8, **{"optimizer.ns_dtype": "float32"}
    )
    cpu, gpu = (count(config, device).optimizer_flops_per_step for device in ("cpu", "cuda"))
    assert gpu > cpu  # the CPU multiplies the upper block rows of X X^T only


# --- decompositions ---


def test_formulas_of_decompositions():
    assert qr((100, 100)) == pytest.approx(8 / 3 * 100**3, rel=1e-6)
    assert eigh((3, 10, 10)) == 27_000
    assert svd((30, 10)) == svd((10, 30)) == 6 * 30 * 100 + 20_000


@pytest.mark.parametrize(("kind", "formula"), [("qr", qr), ("eigh", eigh), ("svd", svd)])
def test_decompositions_are_counted(kind, formula):
    with Watch() as watch:
        getattr(torch.linalg, kind)(torch.eye(12))
    assert decomposing(watch.flops) == watch.flops.total() == formula((12, 12))
