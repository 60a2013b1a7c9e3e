"""Updates beside a model in its plainest form, one row of a sequence after the other: equal bit for bit.

Whatever makes the models' operations fewer must not change a digit: records of earlier code stay valid.
"""

import copy

import pytest
import torch
from torch.nn import functional

from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.data.text import TextTask
from htbench.harness.train.learner import Learner

STEPS, BATCH, LENGTH = 100, 3, 24
EXACT = {"rtol": 0, "atol": 0}


def turn(x, angles, heads):
    """Each half of every head apart, (B, T, D)."""
    cos, sin = (part.to(x.dtype)[:, None] for part in (angles.cos(), angles.sin()))
    first, second = x.view(*x.shape[:-1], heads, -1).chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).view_as(x)


def attend(layer, x, angles):
    B, T, D = x.shape
    q, k, v = layer.q_proj(x), layer.k_proj(x), layer.v_proj(x)
    if layer.qk_norm:
        q, k = (part.float().view(B, T, layer.heads, -1) for part in (q, k))
        q, k = (functional.rms_norm(part, part.shape[-1:]).view(B, T, D) for part in (q, k))
    q, k = (turn(part, angles, layer.heads).to(v.dtype) for part in (q, k))
    q, k, v = (part.view(B, T, layer.heads, -1).transpose(1, 2) for part in (q, k, v))
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=layer.scale)
    return layer.o_proj(y.transpose(1, 2).reshape(B, T, D))


def plain_llama(model, tokens):
    x = model.embed_tokens(tokens)
    K = model.head_size
    angles = torch.outer(torch.arange(LENGTH).float(), 10_000.0 ** -(torch.arange(0, K, 2).float() / K))
    for layer in model.layers:
        x = x + attend(layer.self_attn, layer.input_layernorm(x), angles)
        h, mlp = layer.post_attention_layernorm(x), layer.mlp
        x = x + mlp.down_proj(functional.silu(mlp.gate_proj(h)) * mlp.up_proj(h))
    return model.lm_head(model.norm(x))


def plain_modded_gpt(model, tokens):
    x = model.embed_tokens(tokens)
    if torch.is_autocast_enabled("cpu"):
        x = x.bfloat16()
    quarter = model.head_size // 4
    turning = torch.cat((1024.0 ** -torch.linspace(0, 1, quarter), torch.zeros(quarter)))
    angles = torch.outer(torch.arange(LENGTH).float(), -turning)
    x = model.norm1(x)
    for block in model.blocks:
        x = x + attend(block.attn, block.norm1(x), angles)
        up, _, down = block.mlp
        x = x + down(functional.relu(up(block.norm2(x))).square())
    z = model.lm_head(model.norm2(x)).float()
    return 15.0 * z * (z.square() + 15.0**2).rsqrt()


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "autocast"])
@pytest.mark.parametrize(
    ("name", "forward"), [("llama-nano", plain_llama), ("modded-gpt-nano", plain_modded_gpt)]
)
def test_a_hundred_updates_are_those_of_the_plain_model(name, forward, precision):
    settings = {"precision.params": "bfloat16"} if precision == "bfloat16" else {}
    settings |= {"precision.autocast": "bfloat16"} if precision == "autocast" else {}
    settings |= {"model": name, "batch_size": BATCH, "seq_len": LENGTH, "steps": STEPS, "grad_clip": 1.0}
    run = resolved(
        resolve_config(settings | {"task": "pydocs", "optimizer.name": "adamw", "optimizer.lr": 0.01})
    )
    stream = torch.randint(320, (2000,), generator=torch.Generator().manual_seed(0)).numpy().astype("uint16")
    sizes = {"batch_size": BATCH, "seq_len": LENGTH, "data_seed": 0, "held_out_tokens": LENGTH}
    task = TextTask({"train": stream}, torch.ones(320).numpy(), **sizes)
    learner = Learner(run, task, STEPS, torch.device("cpu"))
    plain = copy.deepcopy(learner.model)
    optimizer = torch.optim.AdamW(
        plain.parameters(), weight_decay=run.config.optimizer.weight_decay, fused=True
    )
    first = None
    for step in range(STEPS):
        loss = learner.update(step)
        batch = task.batch(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            logits = forward(plain, batch.inputs).flatten(0, 1).float()
            expected = (
                functional.cross_entropy(logits, batch.targets.flatten(), reduction="sum") / batch.count
            )
        expected.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = learner.lr
        optimizer.step()
        optimizer.zero_grad()
        torch.testing.assert_close(loss, expected.detach(), **EXACT)
        first = loss if first is None else first
    for weight, other in zip(learner.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(weight, other, **EXACT)
    assert loss < first - 0.05  # it has learnt, so the weights have moved
