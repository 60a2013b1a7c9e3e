"""Published sets of labelled images as tasks, and how prepared images lie on the disk. Torch-free.

Prepared images are bytes in shards that are memory-mapped, so that no process holds a set. A folder has the
parts `train` and `test`. A part has shards `<name>.images`, uint8 (n, C, S, S), and one file `<part>.index`,
int64 (2, N): the rows of its shards in their final order, and their classes in the same one. The validation
split is the first images of `train`, so that another protocol needs no second copy.

The final order is that of the images' hashes. So the splits are the same whichever raw files they come from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.cache import check_sizes
from harness.data.copies import Published
from harness.errors import UsageError
from harness.system import atomic

if TYPE_CHECKING:
    import numpy.typing as npt

    from harness.data.images import ImageTask

    Array = npt.NDArray[Any]

STAMP = "images.json"
IMAGES, INDEX = ".images", ".index"


@dataclass(frozen=True)
class ImageFiles:
    """The content of the stamp, which is written last. The start of a run compares sizes and hashes nothing.

    Attributes:
        shape: (C, S, S) of an image.
        validation: the first so many images of `train` are the validation split.
        parts: of each part the number of images in its shards, by their names and in their order.
    """

    shape: tuple[int, int, int]
    validation: int
    parts: Mapping[str, Mapping[str, int]]

    @classmethod
    def read(cls, folder: Path) -> ImageFiles | None:
        """What the folder's stamp says; None if nothing is prepared."""
        content = atomic.read_json(folder / STAMP)
        if not isinstance(content, dict):
            return None
        channels, height, width = content["shape"]
        return cls((channels, height, width), content["validation"], content["parts"])

    def write(self, folder: Path) -> None:
        """Replace the stamp."""
        atomic.write_json(folder / STAMP, vars(self))

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of all files, by their names."""
        sizes = {part + INDEX: 16 * self.count(part) for part in self.parts}
        for shards in self.parts.values():
            sizes |= {name + IMAGES: images * math.prod(self.shape) for name, images in shards.items()}
        return sizes

    def count(self, part: str) -> int:
        """The number of images."""
        return sum(self.parts[part].values())


def write_index(folder: Path, part: str, rows: Array, labels: Array) -> None:
    """Write the order of a part's rows and their classes in this order, int64 (N,) both."""
    import numpy as np

    content = np.stack([rows, labels]).astype(np.int64).tobytes()
    atomic.write_bytes(folder / (part + INDEX), content)


@dataclass(frozen=True)
class Pictures(Published):
    """One published set.

    Attributes:
        mean, deviation: of each channel of the training images, as shares of 255.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @property
    def prepared_by(self) -> str:
        """What makes the images ready."""
        return f"{self.mean} {self.deviation}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, S, S) of a prepared image."""
        side = int(self.published["side"])
        return (len(self.mean), side, side)

    # --- the functions of a row in the table of tasks ---

    def train_size(self, cache: Path, seq_len: int | None, protocol: str = "honest", **others: Any) -> int:
        """The number of training images of the published copy."""
        row = self.published
        return int(row["parts"]["train"]["images"] - (0 if protocol == "paper" else row["validation"]))

    def ready(self, cache: Path, samples: int | None, seq_len: int | None, **others: Any) -> None:
        """Raise UsageError, with the command to run, unless all is there in full size."""
        files = ImageFiles.read(self.folder(cache))
        if files is None:
            raise UsageError(
                f"The task '{self.task}' is not prepared in '{cache}'; "
                f"run `htbench data prepare {self.task}`."
            )
        check_sizes(self.folder(cache), files.sizes)

    def load(
        self, cache: Path, *, seq_len: int | None, augment: str = "none", mixup: float = 0.0, **settings: Any
    ) -> ImageTask:
        """The task, from what is prepared below `cache`. Raises UsageError if it is not."""
        from harness.data.augment import Recipe
        from harness.data.images import ImageTask

        self.ready(cache, None, seq_len)
        row = self.published
        recipe = Recipe(row["size"], self.mean, self.deviation, augment, mixup)
        return ImageTask.mapped(self.folder(cache), recipe, classes=row["classes"], **settings)


# --- the sets ---

# Photographs of 32x32 pixels: Krizhevsky, "Learning multiple layers of features from tiny images" (2009).
# Mean and deviation are those of all training images (github.com/akamaster/pytorch_resnet_cifar10/issues/9,
# and github.com/gpleiss/efficient_densenet_pytorch/issues/68).
CIFAR10 = Pictures("cifar10", mean=(0.4914, 0.4822, 0.4465), deviation=(0.2470, 0.2435, 0.2616))
CIFAR100 = Pictures("cifar100", mean=(0.5071, 0.4867, 0.4408), deviation=(0.2675, 0.2565, 0.2761))
# Photographs, cut to 256x256 pixels once; a model gets 224x224 of them. Russakovsky et al., "ImageNet large
# scale visual recognition challenge" (2015), arXiv 1409.0575. Mean and deviation are the customary ones
# (github.com/pytorch/examples, `imagenet/main.py`).
IMAGENET = Pictures("imagenet-1k", mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225))
SETS = {pictures.task: pictures for pictures in (CIFAR10, CIFAR100, IMAGENET)}
