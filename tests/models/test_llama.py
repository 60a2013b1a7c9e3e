"""The LLaMA model: names, precision, first weights; what it computes is held against `transformers`."""

import copy
import math

import pytest
import torch

from htbench import models
from htbench.models.llama import INITIAL_STD, rotary_table


@pytest.fixture
def model():
    sizes = {"hidden": 12, "intermediate": 10, "heads": 3, "layers": 2}
    return models.build("llama-nano", vocabulary=19, max_length=9, **sizes)


LAYER = (
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


def test_parameters_have_the_customary_names_and_no_biases(model):
    expected = {f"layers.{layer}.{name}.weight" for layer in range(2) for name in LAYER}
    expected |= {"embed_tokens.weight", "norm.weight", "lm_head.weight"}
    assert {name for name, _ in model.named_parameters()} == expected
    assert list(model.buffers()) == []


def test_rotary_table_keeps_float32_in_a_bfloat16_model():
    cos, sin = rotary_table(256, 64, like=torch.zeros(1, dtype=torch.bfloat16))
    assert cos.dtype == torch.float32
    torch.testing.assert_close(cos[255, 0], torch.tensor(math.cos(255.0)))
    torch.testing.assert_close(sin[255, 0], torch.tensor(math.sin(255.0)))


def test_a_pass_does_not_depend_on_those_before_it(model):
    """The rotary table that is at hand may be of another length or precision, or know of no gradients."""
    tokens, fresh = torch.arange(9)[None], copy.deepcopy(model)
    with torch.inference_mode():
        model(tokens)
    for length in (9, 5, 5, 9):
        found, expected = (each(tokens[:, :length]) for each in (model, copy.deepcopy(fresh)))
        assert torch.equal(found, expected)
        found.sum().backward()
    assert torch.equal(model.double()(tokens), fresh.double()(tokens))


def test_initial_weights():
    torch.manual_seed(0)
    model = models.build("llama-nano", hidden=128, vocabulary=512)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == 1).all()
        else:
            assert abs(parameter.std().item() / INITIAL_STD - 1) < 0.05, name
            assert abs(parameter.mean().item()) < 0.1 * INITIAL_STD, name


def test_impossible_shapes_are_refused(model):
    with pytest.raises(ValueError, match="10 tokens.*max_length=9"):
        model(torch.zeros(1, 10, dtype=torch.int64))
    with pytest.raises(ValueError, match="hidden=50.*8"):
        models.build("llama-nano", hidden=50, heads=4)
