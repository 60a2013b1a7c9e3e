"""The GPT of track 3 against its own program: logits and gradients on weights that a formula gives."""

import json
import math
from pathlib import Path

import pytest
import torch

from htbench import models

# Logits (3, 3, 6) of the places 0, 5 and 23 of three rows and the first six words, the summed loss of all
# places, norms of gradients. Made by the original program's model.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "modded_gpt.json").read_text())
V, D, T = 50, 256, 24
PLACES = [0, 5, 23]


def tokens():
    rows = [[(t**3 + 7 * t**2 + 3 * t + 11 * row) % V for t in range(T + 1)] for row in range(3)]
    return torch.tensor(rows)


def weight(name, shape, number):
    """What the original program got for its parameter of this number; sines without a symmetry."""
    x = torch.arange(math.prod(shape), dtype=torch.float64)
    sines = torch.sin(1.7 * x + 0.003 * x * x / len(x) + number).view(shape)
    if "norm" in name:
        return 1 + 0.2 * sines
    if name.endswith("bias"):
        return 0.1 * sines
    return sines if "embed" in name else 2 / math.sqrt(shape[-1]) * sines


@pytest.fixture
def model():
    sizes = {"vocabulary": V, "hidden": D, "intermediate": 4 * D, "heads": 2, "layers": 2, "max_length": T}
    model = models.build("modded-gpt-small", **sizes)
    with torch.no_grad():  # the original's parameters have the same order
        for number, (name, parameter) in enumerate(model.named_parameters()):
            parameter.copy_(weight(name, parameter.shape, number))
    return model


@pytest.mark.parametrize(
    ("precision", "logit", "gradient"), [("float32", 2e-6, 1e-6), ("bfloat16", 0.016, 0.01)]
)
def test_logits_and_gradients_are_those_of_the_original_program(model, precision, logit, gradient):
    golden = GOLDEN[precision]
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        logits = model(tokens()[:, :-1])
    assert logits.dtype == torch.float32
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens()[:, 1:].flatten(), reduction="sum")
    loss.backward()
    torch.testing.assert_close(logits[:, PLACES, :6], torch.tensor(golden["logits"]), rtol=0, atol=logit)
    assert loss.item() == pytest.approx(golden["loss"], rel=gradient / 10)
    found = {name: p.grad.double().norm().item() for name, p in model.named_parameters()}
    for name, norm in golden["grad_norms"].items():
        assert found[name] == pytest.approx(norm, rel=gradient), name


def test_initial_weights_are_those_of_the_baseline():
    torch.manual_seed(0)
    model = models.build("modded-gpt-nano", hidden=128, intermediate=512, vocabulary=512)
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2 or name.endswith(("o_proj.weight", "mlp.2.weight", "lm_head.weight")):
            assert (parameter == ("norm" in name)).all(), name
        else:
            expected = 1 if "embed" in name else 0.33**0.5 / parameter.shape[1] ** 0.5
            assert abs(parameter.std().item() / expected - 1) < 0.03, name


def test_no_logit_leaves_the_softcap(model):
    with torch.no_grad():
        model.lm_head.weight *= 1000
    largest = model(tokens()[:, :-1]).abs().max().item()
    assert 14.9 < largest <= 15


def test_attention_is_causal(model):
    batch = tokens()[:, :-1]
    changed = batch.clone()
    changed[:, 5] = (changed[:, 5] + 1) % V
    before, after = model(batch), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert ((before - after).abs().amax(dim=-1)[:, 5:] > 0).all()


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="hidden=20 must be a multiple of 4 \\* heads = 8"):
        models.build("modded-gpt-nano", hidden=20)
    with pytest.raises(ValueError, match="a sequence of 33 tokens exceeds max_length=32"):
        models.build("modded-gpt-nano")(torch.zeros(1, 33, dtype=torch.int64))
