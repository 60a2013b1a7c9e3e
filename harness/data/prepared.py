"""What is prepared of a corpus: one small file that lists the shards with their sizes. Torch-free.

The start of a run reads this file and no other. It compares sizes and hashes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.system import atomic

STAMP = "prepared.json"
TOKENS, OFFSETS = ".tokens", ".offsets"  # uint16 (tokens,) and int64 (documents + 1,)


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

    def is_there(self, folder: Path) -> bool:
        """Whether its files have their sizes."""
        return all(_size(folder / name) == size for name, size in self.sizes.items())

    def check(self, folder: Path) -> None:
        """Raise UsageError unless its files have their sizes."""
        for name, size in self.sizes.items():
            if _size(folder / name) != size:
                task = folder.name.rpartition("-")[0]
                raise UsageError(
                    f"'{folder / name}' has {_size(folder / name)} bytes instead of {size}; "
                    f"`htbench data prepare {task}` writes it again."
                )


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
        content = atomic.read_json(folder / STAMP)
        if not isinstance(content, dict):
            return None
        shards = [Shard(**row) for row in content.pop("shards")]
        return cls(**content, shards={shard.name: shard for shard in shards})

    def write(self, folder: Path) -> None:
        """Replace the stamp."""
        content: dict[str, Any] = {**vars(self), "shards": [asdict(one) for one in self.shards.values()]}
        atomic.write_json(folder / STAMP, content)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
