"""GPT-2: the tied head, the initial weights, dropout, and what routing sees of it."""

import io
import math

import pytest
import torch

from htbench import models, optimizers
from htbench.models.gpt2 import INITIAL_STD


def tokens(batch=2, length=9):
    return torch.randint(320, (batch, length), generator=torch.Generator().manual_seed(0))


def test_the_head_is_the_embedding_and_stays_so():
    model = models.build("gpt2-nano").bfloat16()
    assert model.get_output_embeddings().weight is model.wte.weight
    assert "lm_head.weight" not in dict(model.named_parameters())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = models.build("gpt2-nano").bfloat16()
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.lm_head.weight is other.wte.weight
    assert torch.equal(other(tokens()), model(tokens()))


def test_its_gradient_is_the_sum_of_both_uses():
    model = models.build("gpt2-nano").double()
    weight = model.wte.weight
    (both,) = torch.autograd.grad(model(tokens()).logsumexp(-1).sum(), weight)
    as_head = weight.detach().clone().requires_grad_()
    loss = (model(tokens(), head=False) @ as_head.T).logsumexp(-1).sum()
    torch.testing.assert_close(sum(torch.autograd.grad(loss, (weight, as_head))), both)


def test_initial_weights():
    torch.manual_seed(0)
    model = models.build("gpt2-nano", hidden=128, intermediate=512, vocabulary=512, max_length=256, layers=4)
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            assert (parameter == (1 if name.endswith("weight") else 0)).all(), name
            continue
        adds = name.endswith(("attn.proj.weight", "mlp.2.weight"))
        expected = INITIAL_STD / math.sqrt(8) if adds else INITIAL_STD
        assert abs(parameter.std().item() / expected - 1) < 0.05, name


@pytest.mark.parametrize("name", ["gpt2-nano", "vit-nano"])
def test_an_optimizer_can_treat_queries_keys_and_values_apart(name):
    model = models.build(name)
    fused = model.fused_projections()
    assert fused == {block.attn.qkv.weight: 3 for block in model.blocks}
    optimizer = optimizers.build("muon", model, routing="hidden", fused="split")
    (group,) = (group for group in optimizer.param_groups if group.get("blocks") == 3)
    assert set(group["params"]) == set(fused)


def test_a_sequence_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="33 tokens.*max_length=32"):
        models.build("gpt2-nano")(tokens(length=33))
    with pytest.raises(ValueError, match="hidden=50.*heads=4"):
        models.build("gpt2-nano", hidden=50)
