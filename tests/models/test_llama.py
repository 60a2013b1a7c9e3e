"""The mathematics of the LLaMA model, layer by layer and as a whole, against its formulas."""

import math

import pytest
import torch

from htbench import models
from htbench.models.llama import INITIAL_STD, for_heads, rotary_table, rotate

VOCABULARY = 19


@pytest.fixture
def model():
    """A tiny model in float64 whose weights are large enough for every nonlinearity to matter."""
    torch.manual_seed(0)
    sizes = {"hidden": 12, "intermediate": 10, "heads": 3, "layers": 2}
    model = models.build("llama-nano", vocabulary=VOCABULARY, max_length=9, **sizes).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


def tokens(length=7, batch=2):
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def reference(model, sequence):
    """Logits of one sequence, position by position, rotating complex numbers; shares no code with it."""
    W = {name: parameter.detach() for name, parameter in model.named_parameters()}
    H, K = model.layers[0].self_attn.heads, model.head_size

    def norm(x, gain):
        return gain * x / math.sqrt(float((x * x).mean()) + 1e-6)

    def turn(head, position):
        pairs = torch.complex(head[: K // 2], head[K // 2 :])
        angles = [position / 10_000 ** (2 * i / K) for i in range(K // 2)]
        turned = pairs * torch.tensor(
            [complex(math.cos(angle), math.sin(angle)) for angle in angles], dtype=pairs.dtype
        )
        return torch.cat((turned.real, turned.imag))

    x = [W["embed_tokens.weight"][token] for token in sequence]
    for layer in range(len(model.layers)):
        w = {name: W[f"layers.{layer}.{name}.weight"] for name in LAYER}
        n = [norm(vector, w["input_layernorm"]) for vector in x]
        heads = {
            kind: [(w[f"self_attn.{kind}_proj"] @ vector).view(H, K) for vector in n]
            for kind in ("q", "k", "v")
        }
        for t in range(len(x)):
            mixed = []
            for h in range(H):
                q = turn(heads["q"][t][h], t)
                scores = [float(q @ turn(heads["k"][s][h], s)) / math.sqrt(K) for s in range(t + 1)]
                weights = [math.exp(score) for score in scores]
                mixed.append(sum(weights[s] * heads["v"][s][h] for s in range(t + 1)) / sum(weights))
            x[t] = x[t] + w["self_attn.o_proj"] @ torch.cat(mixed)
        for t in range(len(x)):
            n_t = norm(x[t], w["post_attention_layernorm"])
            gate = w["mlp.gate_proj"] @ n_t
            x[t] = x[t] + w["mlp.down_proj"] @ (gate / (1 + torch.exp(-gate)) * (w["mlp.up_proj"] @ n_t))
    return torch.stack([W["lm_head.weight"] @ norm(vector, W["norm.weight"]) for vector in x])


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


def test_forward_equals_an_independent_writing_of_it(model):
    batch = tokens()
    expected = torch.stack([reference(model, sequence) for sequence in batch])
    torch.testing.assert_close(model(batch), expected, rtol=1e-9, atol=1e-9)


def test_parameters_have_the_customary_names_and_no_biases(model):
    expected = {f"layers.{layer}.{name}.weight" for layer in range(2) for name in LAYER}
    expected |= {"embed_tokens.weight", "norm.weight", "lm_head.weight"}
    assert {name for name, _ in model.named_parameters()} == expected
    assert list(model.buffers()) == []


def test_attention_is_causal(model):
    batch = tokens(length=8)
    changed = batch.clone()
    changed[:, 5] = (changed[:, 5] + 1) % VOCABULARY
    before, after = model(batch), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert ((before - after).abs().amax(dim=-1)[:, 5:] > 1e-6).all()


def test_rotary_positions_are_relative():
    q, k = torch.randn(2, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = rotary_table(40, 16, like=q)
    turned_q, turned_k = (rotate(vector.expand(40, 16), for_heads(table, 1), 1) for vector in (q, k))
    scores = turned_q @ turned_k.T
    for shift in range(-39, 40):  # a score depends on the distance of its positions only
        diagonal = scores.diagonal(shift)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert scores[0].std() > 0.1
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm().expand(40))


def test_rotary_table_keeps_float32_in_a_bfloat16_model():
    cos, sin = rotary_table(256, 64, like=torch.zeros(1, dtype=torch.bfloat16))
    assert cos.dtype == torch.float32
    torch.testing.assert_close(cos[255, 0], torch.tensor(math.cos(255.0)))
    torch.testing.assert_close(sin[255, 0], torch.tensor(math.sin(255.0)))


def test_rms_norm_is_its_formula(model):
    x = torch.randn(4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 1e-3
    expected = x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * model.norm.weight
    torch.testing.assert_close(model.norm(x), expected)


def test_initial_weights():
    torch.manual_seed(0)
    model = models.build("llama-nano", hidden=128, vocabulary=512)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == 1).all()
        else:
            assert abs(parameter.std().item() / INITIAL_STD - 1) < 0.05, name
            assert abs(parameter.mean().item()) < 0.1 * INITIAL_STD, name


def test_a_bfloat16_model_computes_in_bfloat16():
    logits = models.build("llama-nano").bfloat16()(torch.zeros(1, 4, dtype=torch.int64))
    assert logits.dtype == torch.bfloat16
    assert logits.isfinite().all()


def test_impossible_shapes_are_refused(model):
    with pytest.raises(ValueError, match="10 tokens.*max_length=9"):
        model(tokens(length=10))
    with pytest.raises(ValueError, match="hidden=50.*8"):
        models.build("llama-nano", hidden=50, heads=4)
