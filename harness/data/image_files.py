"""Prepared images on the disk: bytes in shards that are memory-mapped, so that no process holds a set.

A folder has the parts `train` and `test`. A part has shards `<name>.images`, uint8 (n, C, S, S), and one file
`<part>.index`, int64 (2, N): the rows of its shards in their final order, and their classes in the same one.
The validation split is the first images of `train`, so that another protocol needs no second copy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.system import atomic

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

PARTS = ("train", "test")
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
        found = {part + INDEX: 16 * self.count(part) for part in self.parts}
        for shards in self.parts.values():
            found |= {name + IMAGES: images * math.prod(self.shape) for name, images in shards.items()}
        return found

    def count(self, part: str) -> int:
        """The number of images."""
        return sum(self.parts[part].values())

    def train_size(self, protocol: str) -> int:
        """The number of training images."""
        return self.count("train") - (0 if protocol == "paper" else self.validation)

    def wrong(self, folder: Path) -> str:
        """The first file that has not its size; empty if there is none."""
        return next((name for name, size in self.sizes.items() if _size(folder / name) != size), "")

    def check(self, folder: Path) -> None:
        """Raise UsageError unless all files have their sizes."""
        if name := self.wrong(folder):
            task = folder.name.rpartition("-")[0]
            raise UsageError(
                f"'{folder / name}' has {_size(folder / name)} bytes instead of {self.sizes[name]}; "
                f"`htbench data prepare {task}` writes it again."
            )

    def splits(self, folder: Path, protocol: str) -> dict[str, Images]:
        """The images of every split.

        With protocol "paper" validation images are trained on, too, and the test split stands for them.
        """
        train, test = (self._images(folder, part) for part in PARTS)
        if protocol == "paper":
            return {"train": train, "val": test, "test": test}
        return {"train": train.cut(self.validation, None), "val": train.cut(0, self.validation), "test": test}

    def _images(self, folder: Path, part: str) -> Images:
        import numpy as np

        index = np.fromfile(folder / (part + INDEX), dtype=np.int64).reshape(2, -1)
        return Images(_Shards(folder, self.shape, self.parts[part]), index[0], index[1])


def write_shard(folder: Path, name: str, images: Array) -> None:
    """Write the images uint8 (n, C, S, S)."""
    images.tofile(folder / (name + IMAGES))


def write_index(folder: Path, part: str, rows: Array, labels: Array) -> None:
    """Write the order of a part's rows and their classes in this order, int64 (N,) both."""
    import numpy as np

    content = np.stack([rows, labels]).astype(np.int64).tobytes()
    atomic.write_bytes(folder / (part + INDEX), content)


class Images:
    """Some images of a part, with their classes: `rows` and `labels`, int64 (N,)."""

    def __init__(self, shards: _Shards, rows: Array, labels: Array) -> None:
        self.shards, self.rows, self.labels = shards, rows, labels
        self.shape = (len(rows), *shards.shape)

    def cut(self, start: int, stop: int | None) -> Images:
        """Those from `start` to `stop`."""
        return Images(self.shards, self.rows[start:stop], self.labels[start:stop])

    def gather(self, chosen: Array) -> Array:
        """The chosen images as uint8 (n, C, S, S)."""
        return self.shards.gather(self.rows[chosen])


class _Shards:
    def __init__(self, folder: Path, shape: tuple[int, int, int], sizes: Mapping[str, int]) -> None:
        import numpy as np

        self.folder, self.shape, self.sizes = folder, shape, sizes
        self.names = list(sizes)
        self.starts = np.cumsum([0, *sizes.values()])
        self._open: dict[int, Array] = {}

    def gather(self, rows: Array) -> Array:
        import numpy as np

        shards = np.searchsorted(self.starts, rows, side="right") - 1
        images = np.empty((len(rows), *self.shape), dtype=np.uint8)
        for shard in np.unique(shards).tolist():
            here = shards == shard
            images[here] = self._map(shard)[rows[here] - self.starts[shard]]
        return images

    def _map(self, shard: int) -> Array:
        import numpy as np

        if shard not in self._open:
            name = self.names[shard]
            shape = (self.sizes[name], *self.shape)
            self._open[shard] = np.memmap(
                self.folder / (name + IMAGES), dtype=np.uint8, mode="r", shape=shape
            )
        return self._open[shard]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
