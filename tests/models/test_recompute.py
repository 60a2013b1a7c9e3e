"""Recomputing activations and leaving out the head: other memory, equal numbers."""

import pytest
import torch

from htbench import models

NAMES = ["llama-nano", "gpt2-nano", "vit-nano", "modded-gpt-nano"]


def build(name, **settings):
    torch.manual_seed(0)
    return models.build(name, layers=3, **settings)


def inputs(name):
    generator = torch.Generator().manual_seed(1)
    if name == "vit-nano":
        return torch.randn(3, 1, 16, 16, generator=generator)
    return torch.randint(320, (3, 32), generator=generator)


def saved_bytes(model, batch):
    """Of what the forward pass keeps for the backward pass, parameters left out."""
    kept = {}
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = model(batch)
    return out, sum(kept.values())


@pytest.mark.parametrize("name", NAMES)
def test_recomputed_blocks_give_equal_bits_and_keep_less(name):
    settings = {"dropout": 0.3} if name in ("gpt2-nano", "vit-nano") else {}
    plain, sparing = build(name, **settings), build(name, **settings)
    sparing.recompute = True
    found = []
    for model in (plain, sparing):
        torch.manual_seed(2)
        out, memory = saved_bytes(model, inputs(name))
        out.square().sum().backward()
        found.append((out, memory, [p.grad for p in model.parameters()]))
    (out, memory, gradients), (again, less, recomputed) = found
    assert torch.equal(out, again)
    assert all(map(torch.equal, gradients, recomputed))
    assert less < memory / 2


@pytest.mark.parametrize("name", ["gpt2-nano", "vit-nano"])
def test_dropout_is_for_training_only(name):
    model, batch = build(name, dropout=0.5), inputs(name)
    assert not torch.equal(model(batch), model(batch))
    without = build(name)
    assert torch.equal(model.eval()(batch), without.eval()(batch))
    assert torch.equal(without.train()(batch), without.eval()(batch))


@pytest.mark.parametrize("name", ["llama-nano", "gpt2-nano"])
def test_without_its_head_a_model_returns_what_the_head_reads(name):
    model = build(name)
    assert model.splits_head
    head = model.get_output_embeddings()
    hidden = model(inputs(name), head=False)
    assert hidden.shape == (3, 32, head.in_features) and head.bias is None
    assert torch.equal(head(hidden), model(inputs(name)))
