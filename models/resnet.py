"""Residual networks for small images: 3x3 stem of stride 1 and no max-pool, so a 32x32 image keeps its size.

Shapes: B batch, C channels, H and W the image's sides.
Source: He et al., "Deep Residual Learning" (2016), arXiv 1512.03385, with the stem that is customary for
CIFAR (github.com/kuangliu/pytorch-cifar) and a bottleneck's stride on its 3x3 convolution, as in torchvision.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution, then batch normalisation: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride)."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Residual(nn.Module):
    """relu(residual(x) + shortcut(x)); the shortcut is a 1x1 convolution where the shape changes."""

    def __init__(self, residual: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = residual
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H/stride, W/stride)."""
        return F.relu(self.residual(x) + self.shortcut(x))


def basic_block(inputs: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions; `width` output channels."""
    layers = nn.Sequential(convolution(inputs, width, 3, stride), nn.ReLU(), convolution(width, width, 3))
    return Residual(layers, inputs, width, stride)


def bottleneck_block(inputs: int, width: int, stride: int) -> Residual:
    """1x1 down to `width`, 3x3, 1x1 up to 4 `width` output channels."""
    layers = nn.Sequential(
        convolution(inputs, width, 1),
        nn.ReLU(),
        convolution(width, width, 3, stride),
        nn.ReLU(),
        convolution(width, 4 * width, 1),
    )
    return Residual(layers, inputs, 4 * width, stride)


class ResNet(nn.Module):
    """Class logits (B, classes) from images (B, in_channels, H, W).

    Args:
        blocks: residual blocks of each stage; all but the first halve the image and double the width.
        bottleneck: bottleneck blocks (ResNet-50) instead of basic ones (ResNet-18).
        width: channels of the stem and the first stage.
        in_channels: channels of an image.
        classes: number of logits.
    """

    def __init__(
        self, *, blocks: tuple[int, ...], bottleneck: bool, width: int, in_channels: int, classes: int
    ) -> None:
        super().__init__()
        make, expansion = (bottleneck_block, 4) if bottleneck else (basic_block, 1)
        self.stem = nn.Sequential(convolution(in_channels, width, 3), nn.ReLU())
        self.stages = nn.Sequential()
        inputs = width
        for stage, count in enumerate(blocks):
            stage_width = width * 2**stage
            strides = [1 if stage == 0 else 2] + [1] * (count - 1)
            layers = nn.Sequential()
            for stride in strides:
                layers.append(make(inputs, stage_width, stride))
                inputs = expansion * stage_width
            self.stages.append(layers)
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al., "Delving Deep into Rectifiers" (2015)
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def get_output_embeddings(self) -> nn.Module:
        """The layer that produces the logits; parameter routing finds it by this name."""
        return self.fc

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes). Images may come in float32 whatever the precision of the parameters."""
        x = images.to(self.fc.weight.dtype)
        if x.is_cuda:  # the layout of cuDNN's kernels for tensor cores; a convolution keeps that of its input
            x = x.contiguous(memory_format=torch.channels_last)
        x = self.stages(self.stem(x))
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits
