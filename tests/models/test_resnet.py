"""Residual networks: shapes, shortcuts, strides and initial weights."""

import math

import pytest
import torch
from torch import nn

from htbench import models


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_cifar_form_keeps_the_image_until_the_second_stage(name):
    with torch.device("meta"):
        model = models.build(name)
        x = model.stem(torch.empty(2, 3, 32, 32))
        sides = [x.shape[-1]] + [(x := stage(x)).shape[-1] for stage in model.stages]
        assert sides == [32, 32, 16, 8, 4]
        assert model(torch.empty(2, 3, 32, 32)).shape == (2, 10)
    assert not any(isinstance(module, nn.MaxPool2d) for module in model.modules())


def test_the_stride_of_a_bottleneck_is_on_its_3x3_convolution():
    with torch.device("meta"):
        block = models.build("resnet50").stages[1][0]
    strides = {m.kernel_size[0]: m.stride[0] for m in block.residual.modules() if isinstance(m, nn.Conv2d)}
    assert strides == {1: 1, 3: 2}


def test_forward_is_stem_then_blocks_then_pooled_head():
    torch.manual_seed(0)
    model = models.build("resnet-nano", width=4).eval()
    x = torch.randn(3, 1, 8, 8)

    def conv(x, layer):
        convolution, norm = layer
        W, stride, padding = convolution.weight, convolution.stride, convolution.padding
        x = nn.functional.conv2d(x, W, stride=stride, padding=padding)
        return x / math.sqrt(1 + norm.eps)  # fresh running statistics: mean 0, variance 1

    y = conv(x, model.stem[0]).relu()
    for stage in model.stages:
        (block,) = stage
        shortcut = y if isinstance(block.shortcut, nn.Identity) else conv(y, block.shortcut)
        y = (conv(conv(y, block.residual[0]).relu(), block.residual[2]) + shortcut).relu()
    expected = y.flatten(2).mean(dim=2) @ model.fc.weight.T + model.fc.bias
    torch.testing.assert_close(model(x), expected)
    assert [isinstance(stage[0].shortcut, nn.Identity) for stage in model.stages] == [True, False, False]


def test_convolutions_start_with_the_variance_that_relu_keeps():
    torch.manual_seed(0)
    for module in models.build("resnet-nano", width=32).modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert abs(module.weight.std().item() / math.sqrt(2 / fan_out) - 1) < 0.1
