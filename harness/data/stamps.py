"""What is prepared of a published data set: a small file in its folder lists the shards. Torch-free.

The start of a run reads this file and no other. It compares sizes and hashes nothing.

Text: every raw file becomes shards of its own, so the text of a sample does not depend on how many are
prepared.

Images are bytes in shards that are memory-mapped, so that no process holds a set. A folder has the parts
`train` and `test`. A part has shards `<name>.images`, uint8 (n, C, S, S), and one file `<part>.index`, int64
(2, N): the rows of its shards in their final order, and their classes in the same one. The validation split
is the first images of `train`, so that another protocol needs no second copy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htbench.harness.system import atomic

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

OF_TEXT, OF_IMAGES = "prepared.json", "images.json"
TOKENS, OFFSETS = ".tokens", ".offsets"  # uint16 (tokens,) and int64 (documents + 1,)
IMAGES, INDEX = ".images", ".index"


@dataclass(frozen=True)
class Shard:
    """The documents that one raw file gives to one split, each with its end token."""

    name: str  # "<split>-<number of the raw file>"
    documents: int
    tokens: int

    @property
    def split(self) -> str:
        """ "train", "val" or "test"."""
        return self.name.rpartition("-")[0]

    @property
    def number(self) -> int:
        """Of the raw file."""
        return int(self.name.rpartition("-")[2])

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of its files, by their names."""
        return {self.name + TOKENS: 2 * self.tokens, self.name + OFFSETS: 8 * (self.documents + 1)}

    def rows(self, layout: str, seq_len: int) -> int:
        """The number of samples: documents if padded, windows of `seq_len` predictions if packed."""
        return self.documents if layout == "padded" else max(0, self.tokens - 1) // seq_len


@dataclass(frozen=True)
class Prepared:
    """The content of the stamp.

    Attributes:
        task: whose data it is.
        source: repository and revision.
        train_files: the first so many training files are prepared.
        vocabulary: number of tokens that the model has.
        end: the token after every document.
        pad: the token that fills rows.
        shards: by name.
    """

    task: str
    source: str
    train_files: int
    vocabulary: int
    end: int
    pad: int
    shards: Mapping[str, Shard]

    @classmethod
    def read(cls, folder: Path) -> Prepared | None:
        """What the folder's stamp says; None if nothing is prepared."""
        content = atomic.read_json(folder / OF_TEXT)
        if not isinstance(content, dict):
            return None
        shards = [Shard(**row) for row in content.pop("shards")]
        return cls(**content, shards={shard.name: shard for shard in shards})

    def write(self, folder: Path) -> None:
        """Replace the stamp."""
        content: dict[str, Any] = {**vars(self), "shards": [asdict(shard) for shard in self.shards.values()]}
        atomic.write_json(folder / OF_TEXT, content)

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of all files, by their names."""
        return {name: size for shard in self.shards.values() for name, size in shard.sizes.items()}


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
        content = atomic.read_json(folder / OF_IMAGES)
        if not isinstance(content, dict):
            return None
        channels, height, width = content["shape"]
        return cls((channels, height, width), content["validation"], content["parts"])

    def write(self, folder: Path) -> None:
        """Replace the stamp."""
        atomic.write_json(folder / OF_IMAGES, vars(self))

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
