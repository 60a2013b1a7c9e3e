"""Task `glyphs`: characters in the fonts that matplotlib ships, so nothing is downloaded.

100 classes, grey, 16x16. Each image is a character under a random affine map, with noise. Validation and test
have faces of their own. The images are harder than the digits: they tell good optimizers from better ones.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htbench.harness.data.cache import cached, installed_file

if TYPE_CHECKING:
    import numpy.typing as npt

    from htbench.harness.data.images import ImageTask

SIDE = 16  # pixels of an image
CHARACTERS = "".join(map(chr, range(33, 127))) + "ΓΔΛΣΨΩ"
FACES = {
    "train": (
        *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSansMono-Bold"),
        *("DejaVuSansMono-Oblique", "DejaVuSerif", "DejaVuSerif-Bold", "STIXGeneral", "STIXGeneralItalic"),
        *("cmr10", "cmb10", "cmti10"),
    ),
    "val": ("DejaVuSans-BoldOblique", "DejaVuSerif-Italic", "STIXGeneralBol", "cmss10"),
    "test": ("DejaVuSansMono-BoldOblique", "DejaVuSerif-BoldItalic", "STIXGeneralBolIta", "cmtt10"),
}
IMAGES = {"train": 12, "val": 10, "test": 10}  # of each character in each face

ROTATION = 0.125  # largest tangent of half the angle: a quarter radian
SCALE = (0.8, 1.15)
SHEAR = 0.2
SHIFT = 2.5  # pixels
NOISE = 22 / 128  # times four random bytes less their mean: a deviation of a tenth of the grey scale
SEED = 0
MEAN, DEVIATION = (0.126,), (0.238,)  # of the training images, as shares of the grey scale

# A character is drawn four times as large and sampled down.
_CANVAS = 4 * SIDE
_POINTS = 56
_BASELINE = (_CANVAS // 2, 48)

# The Computer Modern files have TeX's encodings (The TeXbook, appendix F). Where these characters should be
# are other ones, except in cmtt10; the dollar of cmti10 is a pound. Greek capitals have places of their own.
_MISPLACED = "\"'<>\\^_`{|}~"
_MISSING = {"cmr10": _MISPLACED, "cmb10": _MISPLACED, "cmss10": _MISPLACED, "cmti10": _MISPLACED + "$"}
_GREEK = {"Γ": 161, "Δ": 162, "Λ": 164, "Σ": 167, "Ψ": 170, "Ω": 173}


@functools.cache
def fingerprint() -> str:
    """Sixteen hex digits over the font files, all parameters, and the versions of what draws."""
    from PIL import features

    shape = (SIDE, CHARACTERS, FACES, IMAGES, ROTATION, SCALE, SHEAR, SHIFT, NOISE, SEED)
    drawing = (_CANVAS, _POINTS, _BASELINE, _MISSING, _GREEK)
    versions = (importlib.metadata.version("pillow"), features.version("freetype2"))
    digest = hashlib.sha256(repr((shape, drawing, versions)).encode())
    for faces in FACES.values():
        for face in faces:
            digest.update(_font_file(face).read_bytes())
    return digest.hexdigest()[:16]


def train_size(cache: Path, seq_len: int | None, protocol: str = "honest", **_: Any) -> int:
    """The number of training images."""
    splits = ("train", "val") if protocol == "paper" else ("train",)
    return sum(IMAGES[split] * len(_drawn(split)) for split in splits)


def load(
    cache: Path, *, seq_len: int | None, augment: str = "none", mixup: float = 0.0, **settings: Any
) -> ImageTask:
    """The task, from images below `cache`, drawn if missing (a few seconds, once)."""
    from htbench.harness.data.augment import Recipe
    from htbench.harness.data.images import ImageTask

    folder = cached(cache / f"glyphs-{fingerprint()}", _fill)
    recipe = Recipe(SIDE, MEAN, DEVIATION, augment, mixup)
    return ImageTask.mapped(folder, recipe, classes=len(CHARACTERS), **settings)


def draw(split: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Images uint8 (N, 1, 16, 16) and classes int64 (N,) of `train`, `val` or `test`.

    The maps are made without sines and the noise of integers, so that every machine has the same bytes.
    """
    import numpy as np

    drawn = _drawn(split)
    classes = np.array([CHARACTERS.index(character) for _, character in drawn])
    labels = np.repeat(classes, IMAGES[split])
    random = np.random.Philox(key=np.array([SEED, list(FACES).index(split)], dtype=np.uint64))
    maps = iter(_maps(random.random_raw((len(labels), 6)) * 2.0**-64))
    images = np.stack(
        [_distorted(glyph, next(maps)) for glyph in _glyphs(drawn) for _ in range(IMAGES[split])]
    )
    dice = random.random_raw(images.size // 2).view(np.uint8).reshape(*images.shape, 4)
    noise = NOISE * (dice.sum(axis=-1, dtype=np.int32) - 510)
    noisy = np.clip(np.rint(images + noise), 0, 255).astype(np.uint8)
    return noisy[:, None], labels


def _drawn(split: str) -> list[tuple[str, str]]:
    """(face, character) of everything that is drawn."""
    return [
        (face, character)
        for face in FACES[split]
        for character in CHARACTERS
        if character not in _MISSING.get(face, "")
    ]


def _glyphs(drawn: list[tuple[str, str]]) -> list[Any]:
    """Pillow's images of characters, upright and without noise."""
    from PIL import Image, ImageDraw, ImageFont

    glyphs = []
    layout = ImageFont.Layout.BASIC  # the other one needs a library that some machines lack
    faces = {face: ImageFont.truetype(_font_file(face), _POINTS, layout_engine=layout) for face, _ in drawn}
    for face, character in drawn:
        place = _GREEK.get(character, ord(character)) if face.startswith("cm") else ord(character)
        canvas = Image.new("L", (_CANVAS, _CANVAS))
        ImageDraw.Draw(canvas).text(_BASELINE, chr(place), fill=255, font=faces[face], anchor="ms")
        glyphs.append(canvas)
    return glyphs


def _maps(uniforms: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Affine maps (N, 6) from a pixel of twice the image's size to one of the canvas; uniforms (N, 6)."""
    import numpy as np

    tangent, shear, dx, dy = ((2 * uniforms[:, :4] - 1) * (ROTATION, SHEAR, SHIFT, SHIFT)).T
    scale = SCALE[0] + (SCALE[1] - SCALE[0]) * uniforms[:, 4]
    step = _CANVAS / (2 * SIDE) / scale
    cosine, sine = (1 - tangent**2) / (1 + tangent**2) * step, 2 * tangent / (1 + tangent**2) * step
    a, b, d, e = cosine, cosine * shear - sine, sine, sine * shear + cosine
    x, y = SIDE + 2 * dx, SIDE + 2 * dy  # where the canvas's centre goes
    return np.stack([a, b, _CANVAS / 2 - a * x - b * y, d, e, _CANVAS / 2 - d * x - e * y], axis=1)


def _distorted(glyph: Any, affine: npt.NDArray[Any]) -> npt.NDArray[Any]:
    import numpy as np
    from PIL import Image

    twice = glyph.transform(
        (2 * SIDE, 2 * SIDE), Image.Transform.AFFINE, affine.tolist(), Image.Resampling.BILINEAR
    )
    return np.asarray(twice.reduce(2))


def _fill(folder: Path) -> None:
    import numpy as np

    from htbench.harness.data.stamps import IMAGES, ImageFiles, write_index

    shards: dict[str, dict[str, int]] = {"train": {}, "test": {}}
    classes: dict[str, list[npt.NDArray[Any]]] = {"train": [], "test": []}
    for split, part in {"val": "train", "train": "train", "test": "test"}.items():
        images, labels = draw(split)
        images.tofile(folder / (split + IMAGES))
        shards[part][split] = len(images)
        classes[part].append(labels)
    for part, some in classes.items():
        labels = np.concatenate(some)
        write_index(folder, part, np.arange(len(labels)), labels)
    ImageFiles((1, SIDE, SIDE), shards["train"]["val"], shards).write(folder)


def _font_file(face: str) -> Path:
    return installed_file("glyphs", "matplotlib", "matplotlib", f"mpl-data/fonts/ttf/{face}.ttf")
