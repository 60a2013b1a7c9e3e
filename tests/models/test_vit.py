"""The vision transformer: its patches, its initial weights, and what routing sees of it."""

import pytest
import torch
from torch import nn

from htbench import models
from htbench.models.vit import INITIAL_STD


def images(batch=2):
    return torch.randn(batch, 1, 16, 16, generator=torch.Generator().manual_seed(0))


def test_a_patch_is_seen_whole_and_only_through_its_own_place():
    model = models.build("vit-nano", layers=1, patch=4).double()
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    changed = images().double()
    model(changed)
    changed[:, :, 4:8, 8:12] += 1  # row 1, column 2 of four patches a side
    model(changed)
    moved = (seen[0] - seen[1]).abs().amax(dim=(0, 2)) > 0
    assert moved.nonzero().flatten().tolist() == [1 + 1 * 4 + 2]


def test_every_patch_reaches_the_logits():
    model = models.build("vit-nano").double()
    picture = images().double().requires_grad_()
    model(picture).square().sum().backward()
    assert (picture.grad.abs() > 0).all()


def test_initial_weights_are_those_of_timm():
    torch.manual_seed(0)
    model = models.build("vit-nano", hidden=128, intermediate=512, image_size=64)
    for name, part in model.named_modules():
        if isinstance(part, nn.Linear):
            assert (part.bias == 0).all()
        if isinstance(part, nn.Linear | nn.Embedding):
            assert abs(part.weight.std().item() / INITIAL_STD - 1) < 0.05, name
    assert 0 < model.class_token.abs().max() < 1e-5


def test_precision_and_wrong_sizes():
    with torch.autocast("cpu", torch.bfloat16):
        assert models.build("vit-nano")(images()).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="8x8 pixels.*image_size=16"):
        models.build("vit-nano")(torch.zeros(1, 1, 8, 8))
    with pytest.raises(ValueError, match="image_size=18.*patch=8"):
        models.build("vit-nano", image_size=18)
