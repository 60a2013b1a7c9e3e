"""The chunked loss against the plain one in float64, its memory, and where text tasks use it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from htbench import models
from htbench.harness.data import loss as module
from htbench.harness.data import text
from htbench.harness.data.loss import linear_cross_entropies, linear_cross_entropy
from htbench.harness.data.task import IGNORED, Batch
from htbench.harness.data.text import TextTask

N, D, V = 13, 6, 11


@pytest.fixture(autouse=True)
def several_chunks(monkeypatch):
    """Chunks of four rows, the last of one."""
    monkeypatch.setitem(module.CHUNK_LOGITS, "cpu", 4 * V + 3)


def data(dtype=torch.float64, rows=N, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, D, generator=generator, dtype=torch.float64) * scale
    weight = torch.randn(V, D, generator=generator, dtype=torch.float64)
    targets = torch.randint(V, (rows,), generator=generator)
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), targets


def plain(hidden, weight, targets):
    return cross_entropy(hidden @ weight.T, targets, ignore_index=IGNORED, reduction="sum")


def gradients(loss, *tensors):
    return torch.autograd.grad(loss, tensors)


def test_loss_and_gradients_are_those_of_the_formula():
    hidden, weight, targets = data()
    found, expected = linear_cross_entropy(hidden, weight, targets), plain(hidden, weight, targets)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    both = zip(gradients(found, hidden, weight), gradients(expected, hidden, weight), strict=True)
    for ours, theirs in both:
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda h, w: linear_cross_entropy(h, w, targets), (hidden, weight))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(0, 9), share=st.floats(0, 1), seed=st.integers(0, 99), scale=st.sampled_from([1, 300])
)
def test_any_rows_any_ignored_targets(rows, share, seed, scale):
    hidden, weight, targets = data(rows=rows, seed=seed, scale=scale)
    targets[torch.rand(rows, generator=torch.Generator().manual_seed(seed)) < share] = IGNORED
    kept = (targets != IGNORED).nonzero().flatten()
    found, expected = linear_cross_entropy(hidden, weight, targets, kept), plain(hidden, weight, targets)
    torch.testing.assert_close(found, expected)
    ours, theirs = (gradients(3 * loss, hidden, weight) for loss in (found, expected))
    torch.testing.assert_close(ours, theirs)
    assert (ours[0][targets == IGNORED] == 0).all()


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.bfloat16, 4e-3)])
def test_low_precision_keeps_its_types_and_sums_in_float32(dtype, rtol):
    rows = 3000
    hidden, weight, targets = data(dtype, rows=rows)
    loss = linear_cross_entropy(hidden, weight, targets)
    exact = [tensor.detach().double().requires_grad_() for tensor in (hidden, weight)]
    expected = plain(*exact, targets)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=rtol, atol=0)
    ours, theirs = gradients(loss / rows, hidden, weight), gradients(expected / rows, *exact)
    assert [one.dtype for one in ours] == [dtype, dtype]
    for one, other in zip(ours, theirs, strict=True):
        assert ((one.double() - other).norm() / other.norm()).item() < 2 * rtol


def test_the_weights_gradient_is_summed_more_precisely_than_in_bfloat16(monkeypatch):
    """A thousand equal rows in as many chunks: bfloat16 would stop at 256 times the first."""
    monkeypatch.setitem(module.CHUNK_LOGITS, "cpu", V)
    hidden, weight, targets = data(torch.bfloat16, rows=1)
    (once,) = gradients(linear_cross_entropy(hidden, weight, targets), weight)
    many = hidden.detach().expand(1000, D)
    (often,) = gradients(linear_cross_entropy(many, weight, targets.expand(1000)), weight)
    torch.testing.assert_close(often.double(), 1000 * once.double(), rtol=1e-2, atol=1e-2)


def test_autocast_multiplies_in_bfloat16_and_returns_gradients_in_float32():
    hidden, weight, targets = data(torch.float32, rows=200)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets)
        double = linear_cross_entropy(hidden.double(), weight.double(), targets)
    low = [tensor.detach().bfloat16().requires_grad_() for tensor in (hidden, weight)]
    assert loss.item() == linear_cross_entropy(*low, targets).item() != double.item()
    exact = gradients(plain(hidden, weight, targets), hidden, weight)
    for ours, theirs in zip(gradients(loss, hidden, weight), exact, strict=True):
        assert ours.dtype == torch.float32
        assert ((ours - theirs).norm() / theirs.norm()).item() < 1e-2


def test_without_gradients_none_is_computed(monkeypatch):
    hidden, weight, targets = data()
    monkeypatch.setattr(module, "_add_product", lambda *_: pytest.fail("gradient work"))
    with torch.no_grad():
        loss = linear_cross_entropy(hidden, weight, targets)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, plain(hidden, weight, targets).detach())


@pytest.mark.parametrize("wrong", [-1, V])
def test_a_target_outside_of_the_vocabulary_is_an_error(wrong):
    hidden, weight, targets = data()
    with pytest.raises(RuntimeError, match="out of bounds"):
        linear_cross_entropy(hidden, weight, torch.full_like(targets, wrong))


def test_backward_may_be_repeated():
    hidden, weight, targets = data()
    loss = linear_cross_entropy(hidden, weight, targets)
    first = torch.autograd.grad(loss, weight, retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(loss, weight)[0])


# --- in a text task ---


def task(vocabulary):
    streams = {split: np.zeros(33, dtype=np.uint16) for split in ("train", "val", "test")}
    sizes = {"batch_size": 4, "seq_len": 8, "data_seed": 0, "held_out_tokens": 1000}
    return TextTask(streams, np.ones(vocabulary), **sizes)


def a_batch():
    tokens = torch.randint(320, (4, 9), generator=torch.Generator().manual_seed(0))
    targets = tokens[:, 1:].clone()
    targets[:2, 5:] = IGNORED  # padding
    return Batch.of(tokens[:, :-1], targets).to("cpu")


def parameter_gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    ("name", "compiled"), [("llama-nano", False), ("gpt2-nano", False), ("llama-nano", True)]
)
def test_a_task_with_many_words_has_the_same_loss_and_gradients(name, compiled, monkeypatch):
    torch.manual_seed(0)
    model = models.build(name).double()
    forward = torch.compile(model, backend="eager") if compiled else model
    whole = task(320).loss(forward, a_batch())
    before = parameter_gradients(model, whole)
    monkeypatch.setattr(text, "CHUNK_ABOVE", 319)
    monkeypatch.setitem(module.CHUNK_LOGITS, "cpu", 7 * 320)
    monkeypatch.setattr(TextTask, "logits", lambda *_: pytest.fail("whole logits"))
    chunked = task(320).loss(forward, a_batch())
    torch.testing.assert_close(chunked, whole)
    torch.testing.assert_close(parameter_gradients(model, chunked), before)


@pytest.mark.parametrize("name", ["llama-nano", "gpt2-nano"])
def test_rows_are_scored_in_chunks_of_any_size(name, monkeypatch):
    torch.manual_seed(0)
    model = models.build(name)
    whole = task(320).score(model, "test", 4, torch.device("cpu")).sums
    monkeypatch.setattr(text, "CHUNK_ABOVE", 319)
    monkeypatch.setitem(module.CHUNK_LOGITS, "cpu", 7 * 320)
    monkeypatch.setattr(TextTask, "logits", lambda *_: pytest.fail("whole logits"))
    assert task(320).score(model, "test", 4, torch.device("cpu")).sums == pytest.approx(whole, rel=1e-5)


def test_ignored_targets_cost_nothing_in_chunks():
    hidden, weight, targets = data()
    targets[::3] = IGNORED
    expected = cross_entropy(hidden @ weight.T, targets, ignore_index=IGNORED, reduction="none")
    torch.testing.assert_close(linear_cross_entropies(hidden, weight, targets, IGNORED), expected)


def test_a_model_that_keeps_its_head_has_the_plain_loss():
    model = torch.nn.Embedding(5000, 5000)
    loss = task(5000).loss(model, a_batch())
    batch = a_batch()
    expected = cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten(), reduction="sum")
    torch.testing.assert_close(loss, expected)
