"""Random changes of training images, in batches, on the device of the model.

Their parameters are a pure function of (data_seed, step, index in the global batch): micro-batches, processes
and resumption change nothing. A batch carries the random numbers of its samples; `Batch.to` applies them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from htbench.harness.data.order import uniforms
from htbench.harness.data.randaugment import LAYERS, places, randaugment
from htbench.harness.data.task import Batch, Mix, moved

AREA = (0.08, 1.0)  # share of the image that a resized crop keeps, as in Inception (arXiv 1409.4842)
ASPECT = 4 / 3  # largest ratio of its sides
DRAWS = 6 + 2 * LAYERS  # random numbers of a sample: place, flip, shape, mixup, then RandAugment's


@dataclass(frozen=True)
class Recipe:
    """How bytes become the images that a model gets.

    Attributes:
        size: side of the images; larger ones are cropped.
        mean, deviation: of each channel of the training images, as shares of 255.
        augment: a key of AUGMENTS.
        mixup: parameter of the Beta distribution of the weights; 0: images are not mixed.
    """

    size: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    augment: str = "none"
    mixup: float = 0.0

    def cut(self, start: int, stop: int) -> Recipe:
        """Itself: as the transform of a held-out batch it has nothing of single samples."""
        return self

    def __call__(self, batch: Batch) -> Batch:
        """A held-out batch: the centre of every image, standardised."""
        return replace(batch, inputs=self.standardised(centre_crop(batch.inputs, self.size)))

    def standardised(self, images: Tensor) -> Tensor:
        """Float32 of images in 0 to 255."""
        both = moved(torch.tensor([self.mean, self.deviation]), images.device)
        mean, deviation = both[..., None, None] * 255
        standardised: Tensor = (images.float() - mean) / deviation
        return standardised


@dataclass(frozen=True)
class Augmented:
    """The transform of n training samples.

    Attributes:
        recipe: of the task.
        draws: float64 (n, DRAWS) in [0, 1), on the CPU.
        images, labels: with mixup those of the samples and of the one after the last, as which `draws` has a
            row, too; None without.
    """

    recipe: Recipe
    draws: Tensor
    images: Tensor | None = None
    labels: Tensor | None = None

    def cut(self, start: int, stop: int) -> Augmented:
        """That of the samples [start, stop)."""
        if self.images is None or self.labels is None:
            return replace(self, draws=self.draws[start:stop])
        rows = slice(start, stop + 1)
        return Augmented(self.recipe, self.draws[rows], self.images[rows], self.labels[rows])

    def __call__(self, batch: Batch) -> Batch:
        """The batch augmented, standardised and mixed."""
        images = batch.inputs
        if self.images is not None:
            images = torch.cat([images, moved(self.images[-1:], images.device)])
        changed = AUGMENTS[self.recipe.augment](images, self.draws, self.recipe.size)
        return self._mixed(replace(batch, inputs=self.recipe.standardised(changed)))

    def _mixed(self, batch: Batch) -> Batch:
        if self.labels is None:
            return batch
        device = batch.inputs.device
        weights = moved(beta(self.draws[:-1, 5], self.recipe.mixup), device)
        first, second = batch.inputs[:-1], batch.inputs[1:]
        mixed = torch.lerp(second, first, weights[:, None, None, None])
        return replace(batch, inputs=mixed, mix=Mix(moved(self.labels[1:], device), weights))


def draws(batch_size: int, seed: int, step: int) -> Tensor:
    """The random numbers (batch_size, DRAWS) of a global batch, on the CPU."""
    return torch.from_numpy(uniforms((batch_size, DRAWS), seed, step))


def beta(uniform: Tensor, alpha: float) -> Tensor:
    """Float32 draws from Beta(alpha, alpha), by inverting its distribution function."""
    from scipy.special import betaincinv

    return torch.from_numpy(betaincinv(alpha, alpha, uniform.numpy())).float()


# --- the augmentations: images (N, C, H, W) and draws (N, DRAWS) to images (N, C, size, size) ---


def centre_crop(images: Tensor, size: int) -> Tensor:
    """The middle `size` x `size` pixels."""
    top, left = ((side - size) // 2 for side in images.shape[-2:])
    return images[..., top : top + size, left : left + size]


def crop_flip(images: Tensor, u: Tensor, size: int) -> Tensor:
    """A random window, mirrored or not; an image that is no larger gets a black border of an eighth.

    The convention for CIFAR: a border of 4 (He et al., arXiv 1512.03385, section 4.2).
    """
    border = size // 8 if images.shape[-1] == size else 0
    images = F.pad(images, (border,) * 4)
    n, channels, height, width = images.shape
    top, left = ((u[:, k] * (side - size + 1)).long() for k, side in enumerate((height, width)))
    steps = torch.arange(size)
    rows = top[:, None] + steps
    columns = left[:, None] + torch.where(u[:, 2:3] < 0.5, steps.flip(0), steps)
    pixels = moved((rows[:, :, None] * width + columns[:, None, :]).view(n, 1, -1), images.device)
    chosen = images.view(n, channels, -1).gather(2, pixels.expand(-1, channels, -1))
    return chosen.view(n, channels, size, size)


def resized_crop_flip(images: Tensor, u: Tensor, size: int) -> Tensor:
    """A window of random area, aspect and place, mirrored or not, resized bilinearly; bytes again.

    A window that would be larger than the image is as large as the image.
    """
    area = AREA[0] + (AREA[1] - AREA[0]) * u[:, 3]
    stretch = (math.log(ASPECT) * (2 * u[:, 4] - 1)).exp()
    width, height = (area * stretch).sqrt().clamp(max=1), (area / stretch).sqrt().clamp(max=1)
    x, y = (1 - width) * (2 * u[:, 1] - 1), (1 - height) * (2 * u[:, 0] - 1)  # its centre, in -1 to 1
    zero = torch.zeros_like(x)
    maps = torch.stack([width * torch.where(u[:, 2] < 0.5, -1, 1), zero, x, zero, height, y], dim=1)
    grid = places(moved(maps.view(-1, 2, 3).float(), images.device), size)
    resized = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return resized.round().to(torch.uint8)


def _plain(images: Tensor, u: Tensor, size: int) -> Tensor:
    return centre_crop(images, size)


def _randaugment(images: Tensor, u: Tensor, size: int) -> Tensor:
    return randaugment(resized_crop_flip(images, u, size), u[:, 6:])


AUGMENTS: Mapping[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "none": _plain,
    "crop-flip": crop_flip,
    "resized-crop-flip": resized_crop_flip,
    "randaugment": _randaugment,
}
