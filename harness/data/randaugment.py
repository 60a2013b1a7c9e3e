"""RandAugment (Cubuk et al., arXiv 1909.13719) with two layers at magnitude 10, on batches of bytes.

The operations are those of the paper. Their strengths are those of the code behind "RandAugment(2, 10)" for
plain ViTs (github.com/google-research/big_vision, `pp/autoaugment.py`), where 10 is the highest level. We
differ in four things: shears keep the centre where it is; contrast is taken against the mean grey, as Pillow
does; solarize has the threshold 128, since that of level 10 changes nothing; and the code's inversion, cutout
and addition are left out, as in the paper.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from htbench.harness.data.task import moved

LAYERS = 2
ANGLE = math.radians(30)
SHEAR = 0.3
TRANSLATION = 2 * 100 / 224  # 100 of 224 pixels, where an image reaches from -1 to 1
FACTOR = 1.9  # of brightness, contrast, colour and sharpness
FILL = 128  # grey of pixels from outside
BITS = 4  # that posterize keeps
THRESHOLD = 128
_GREY = (299, 587, 114)  # thousandths of red, green and blue (ITU-R 601)

Operation = Callable[[Tensor, Tensor], Tensor]  # bytes (N, C, H, W) and signs (N,) to bytes


def randaugment(images: Tensor, u: Tensor) -> Tensor:
    """Each image after LAYERS operations of its own.

    Args:
        images: uint8 (N, C, S, S).
        u: (N, 2 LAYERS) in [0, 1), on the CPU: the choice and the sign of each operation.
    """
    images = images.clone()
    choices = (u[:, ::2] * len(OPERATIONS)).long()
    chosen = moved(choices.argsort(dim=0, stable=True), images.device)
    signs = moved(torch.where(u[:, 1::2] < 0.5, -1.0, 1.0), images.device)
    for layer in range(LAYERS):
        counts = choices[:, layer].bincount(minlength=len(OPERATIONS)).tolist()
        for operation, there in zip(OPERATIONS.values(), torch.split(chosen[:, layer], counts), strict=True):
            if len(there):
                images[there] = operation(images[there], signs[there, layer])
    return images


# --- geometry: a map (2, 3) from places of the result to places of the image, both in -1 to 1 ---


def places(maps: Tensor, size: int) -> Tensor:
    """Where each of size x size pixels comes from, for maps (N, 2, 3): (N, size, size, 2) for `grid_sample`.

    Without a matrix product, whose last digits may depend on how many images there are.
    """
    x = (torch.arange(size, device=maps.device) * 2 + 1) / size - 1
    ax, ay, shift = (maps[:, None, None, :, k] for k in range(3))
    return ax * x[None, None, :, None] + ay * x[None, :, None, None] + shift


def _geometry(affine: Callable[[float], list[list[float]]]) -> Operation:
    maps = torch.tensor([affine(-1.0), affine(1.0)])

    def operation(images: Tensor, signs: Tensor) -> Tensor:
        grid = places(moved(maps, images.device)[(signs > 0).long()], images.shape[-1])
        shifted = F.grid_sample(images.float() - FILL, grid, mode="nearest", align_corners=False)
        return (shifted + FILL).to(torch.uint8)

    return operation


def _rotation(sign: float) -> list[list[float]]:
    cosine, sine = math.cos(ANGLE), sign * math.sin(ANGLE)
    return [[cosine, -sine, 0], [sine, cosine, 0]]


# --- colour ---


def _blended(other: Tensor, images: Tensor) -> Tensor:
    """Away from `other`, through the images and beyond."""
    return torch.lerp(other.float(), images.float(), FACTOR).clamp(0, 255).to(torch.uint8)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] == 1:
        return images
    weights = moved(torch.tensor(_GREY), images.device)[:, None, None]
    return ((images * weights).sum(dim=1, keepdim=True) // 1000).to(torch.uint8)


def _brightness(images: Tensor, signs: Tensor) -> Tensor:
    return _blended(torch.zeros_like(images), images)


def _color(images: Tensor, signs: Tensor) -> Tensor:
    return _blended(_grey(images).expand_as(images), images)


def _contrast(images: Tensor, signs: Tensor) -> Tensor:
    grey = _grey(images).flatten(1)
    mean = (2 * grey.sum(dim=1) + grey.shape[1]) // (2 * grey.shape[1])
    return _blended(mean[:, None, None, None].expand_as(images), images)


def _sharpness(images: Tensor, signs: Tensor) -> Tensor:
    """Pillow's SMOOTH kernel: a pixel counts five times, its eight neighbours once; the border stays."""
    x = images.int()
    rows = x[..., :-2, :] + x[..., 1:-1, :] + x[..., 2:, :]
    box = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    smooth = images.clone()
    smooth[..., 1:-1, 1:-1] = (box + 4 * x[..., 1:-1, 1:-1]) // 13
    return _blended(smooth, images)


# --- tables of bytes ---


def _posterize(images: Tensor, signs: Tensor) -> Tensor:
    return images >> (8 - BITS) << (8 - BITS)


def _solarize(images: Tensor, signs: Tensor) -> Tensor:
    return torch.where(images < THRESHOLD, images, 255 - images)


def _autocontrast(images: Tensor, signs: Tensor) -> Tensor:
    """Stretch every channel to the whole range."""
    low, high = (reduce(images, dim=(2, 3), keepdim=True).int() for reduce in (torch.amin, torch.amax))
    stretched = (images.int() - low) * 255 // (high - low).clamp(min=1)
    return torch.where(high > low, stretched, images).to(torch.uint8)


def _equalize(images: Tensor, signs: Tensor) -> Tensor:
    """Make the histogram of every channel flat, by Pillow's rule."""
    values = images.flatten(2).long()
    ones = torch.ones_like(values)
    histogram = values.new_zeros(*values.shape[:2], 256).scatter_add_(2, values, ones)
    greatest = histogram.gather(2, values.amax(dim=2, keepdim=True))
    step = (values.shape[2] - greatest) // 255
    before = histogram.cumsum(dim=2) - histogram
    table = ((before + step // 2) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, table.gather(2, values), values).view_as(images).to(torch.uint8)


OPERATIONS: dict[str, Operation] = {
    "identity": lambda images, signs: images,
    "autocontrast": _autocontrast,
    "equalize": _equalize,
    "rotate": _geometry(_rotation),
    "solarize": _solarize,
    "color": _color,
    "posterize": _posterize,
    "contrast": _contrast,
    "brightness": _brightness,
    "sharpness": _sharpness,
    "shear-x": _geometry(lambda sign: [[1, sign * SHEAR, 0], [0, 1, 0]]),
    "shear-y": _geometry(lambda sign: [[1, 0, 0], [sign * SHEAR, 1, 0]]),
    "translate-x": _geometry(lambda sign: [[1, 0, sign * TRANSLATION], [0, 1, 0]]),
    "translate-y": _geometry(lambda sign: [[1, 0, 0], [0, 1, sign * TRANSLATION]]),
}
