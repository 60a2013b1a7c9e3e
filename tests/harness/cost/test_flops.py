"""What a step computes, beside what torch's FLOP counter sees in a real one."""

import pytest
import torch

from harness.cost import kept, shapes
from harness.cost.ledger import eigh, qr, svd
from optimizers.spectral import products as spectral_products
from tests.helpers.counted import Step, config_of, products

NANO = {
    "llama-nano": "pydocs",
    "gpt2-nano": "pydocs",
    "resnet-nano": "glyphs",
    "vit-nano": "glyphs",
}
RECOMPUTING = [name for name in NANO if name != "resnet-nano"]
DECOMPOSED = {"qr", "eigh", "svd"}  # torch does not count them
AGAIN = {"activation_checkpointing": True}


def estimated(config, device="cpu"):
    return kept.simulate(config, shapes.of(config), device).work


def passes(work):
    return work.forward + work.backward + work.recomputation


def check(config):
    step, work = Step(config), estimated(config)
    assert passes(work) == pytest.approx(products(step.gradients), rel=0.03)
    step.optimizer.step()
    own = sum(count for kind, count in work.optimizer_kinds.items() if kind not in DECOMPOSED)
    assert own == pytest.approx(products(step.optimizer.step), rel=0.03)


@pytest.mark.parametrize("name", NANO)
def test_products_are_those_of_a_real_step(name):
    check(config_of(NANO[name], name))


@pytest.mark.parametrize("name", ["muon", "normuon", "cosmos"])
def test_products_of_optimizers_are_those_of_a_real_step(name):
    check(config_of("pydocs", "llama-nano", name))


@pytest.mark.parametrize("name", RECOMPUTING)
def test_products_with_activation_checkpointing(name):
    config = config_of(NANO[name], name, **AGAIN, micro_batch=2)
    check(config)
    assert estimated(config).recomputation > 0.5 * estimated(config).forward


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, AGAIN], ids=["kept", "again"])
def test_products_of_llama_60m(settings):
    check(config_of("c4", "llama-60m", "muon", batch_size=1, **settings))


def test_the_chunked_loss_makes_three_products_of_the_head_forward():
    whole = config_of("c4", "llama-nano", seq_len=32)
    work = estimated(whole)
    head = 2 * 4 * 32 * 48 * 32000
    body = estimated(config_of("pydocs", "llama-nano")).forward - 2 * 4 * 32 * 48 * 320
    assert work.forward == 3 * head + body
    assert work.evaluation == head + body


def test_attention_counts_two_products_forward_and_five_backward():
    short, long = (estimated(config_of("pydocs", "llama-nano", seq_len=t)) for t in (32, 64))
    scores = 2 * 4 * 2 * 48  # a product's FLOPs per pair of positions: 4 samples, 2 layers, 48 wide
    assert long.forward - 2 * short.forward == 2 * scores * (64**2 - 2 * 32**2)
    assert long.backward - 2 * short.backward == 5 * scores * (64**2 - 2 * 32**2)


def test_micro_batches_and_processes_do_not_change_the_work():
    one = estimated(config_of("pydocs", "llama-nano", batch_size=8))
    for settings in ({"micro_batch": 2}, {"processes": 2}):
        assert passes(estimated(config_of("pydocs", "llama-nano", batch_size=8, **settings))) == passes(one)
    assert one.parameters == 86256
    assert 0 < one.matrix < one.parameters


def test_the_precision_of_products_is_told(monkeypatch):
    monkeypatch.setattr(spectral_products, "_NATIVE_BFLOAT16", True)  # on any processor
    work = estimated(config_of("pydocs", "llama-nano", "muon", **{"precision.autocast": "bfloat16"}))
    assert set(work.kinds) == {"bfloat16"} == set(work.optimizer_kinds)
    assert set(estimated(config_of("pydocs", "llama-nano")).kinds) == {"float32"}


# --- dear steps now and then ---


def test_soap_takes_a_qr_every_so_many_steps():
    per_step, rarely = (
        estimated(config_of("pydocs", "llama-nano", "soap", **{"optimizer.precondition_frequency": k}))
        for k in (1, 10)
    )
    assert rarely.optimizer_kinds["qr"] == pytest.approx(per_step.optimizer_kinds["qr"] / 10)
    assert "eigh" not in per_step.optimizer_kinds  # of the first step only
    assert rarely.optimizer < per_step.optimizer


def test_galore_takes_an_svd_every_so_many_steps():
    settings = {"optimizer.rank": 8, "optimizer.update_gap": 50}
    work = estimated(config_of("pydocs", "llama-nano", "galore", **settings))
    model = Step(config_of("pydocs", "llama-nano", "galore", **settings))
    projected = [group for group in model.optimizer.param_groups if group.get("rank")]
    shapes_ = [p.shape for group in projected for p in group["params"] if p.ndim == 2]
    assert work.optimizer_kinds["svd"] == pytest.approx(sum(svd(*shape) for shape in shapes_) / 50)


def test_sophias_second_pass_counts_as_the_optimizers():
    config = config_of("pydocs", "llama-nano", "sophia", **{"optimizer.curvature_interval": 5})
    work = estimated(config)
    assert work.optimizer == pytest.approx((work.forward + work.backward) / 5)


def test_a_gpu_steps_whole_stacks():
    config = config_of("pydocs", "llama-60m", "muon", batch_size=1, seq_len=8)
    cpu, gpu = estimated(config), estimated(config, "cuda")
    assert gpu.optimizer_calls < cpu.optimizer_calls / 3
    assert gpu.optimizer > cpu.optimizer  # the CPU multiplies the upper block rows of X X^T only


# --- decompositions ---


def test_formulas_of_decompositions():
    assert qr(100, 100) == pytest.approx(8 / 3 * 100**3, rel=1e-6)
    assert eigh(3, 10, 10) == 27_000
    assert svd(30, 10) == svd(10, 30) == 6 * 30 * 100 + 20_000


@pytest.mark.parametrize("kind", ["qr", "eigh", "svd"])
def test_decompositions_are_counted(kind):
    from torch._subclasses.fake_tensor import FakeTensorMode

    from harness.cost.ledger import Ledger

    ledger = Ledger()
    with FakeTensorMode(), ledger:
        x = torch.empty(12, 12)
        getattr(torch.linalg, kind)(x)
    assert set(ledger.phases["set-up"].flops) == {kind}
