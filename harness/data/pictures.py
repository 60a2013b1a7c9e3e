"""A published set of labelled images as a task: which raw files there are, and the splits. Torch-free.

The final order is that of the images' hashes. So the splits are the same whichever raw files they come from.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data import copies
from harness.data.image_files import ImageFiles
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.data.images import ImageTask

# Raised when `picture_shards.py` makes other bytes of the same images: they then are prepared anew.
RECIPE = 1


@dataclass(frozen=True)
class Pictures:
    """One published set.

    Attributes:
        task: its name.
        mean, deviation: of each channel of the training images, as shares of 255.
    """

    task: str
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @property
    def published(self) -> dict[str, Any]:
        """The row of the published copy."""
        return copies.row(self.task)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, S, S) of a prepared image."""
        side = int(self.published["side"])
        return (len(self.mean), side, side)

    # --- the functions of a row in the registry ---

    def fingerprint(self) -> str:
        """Sixteen hex digits over the description of the copy and the recipe, not over its bytes."""
        text = f"{copies.digest(self.task)} {RECIPE} {self.mean} {self.deviation}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def folder(self, cache: Path) -> Path:
        """Where the prepared data lie."""
        return cache / f"{self.task}-{self.fingerprint()}"

    def train_size(self, cache: Path, seq_len: int | None, protocol: str = "honest", **options: Any) -> int:
        """The number of training images of the published copy."""
        row = self.published
        return int(row["parts"]["train"]["images"] - (0 if protocol == "paper" else row["validation"]))

    def ready(self, cache: Path, samples: int | None, seq_len: int | None, **options: Any) -> None:
        """Raise UsageError, with the command to run, unless all is there in full size."""
        self._files(cache).check(self.folder(cache))

    def load(
        self,
        cache: Path,
        *,
        batch_size: int,
        seq_len: int | None,
        data_seed: int,
        protocol: str = "honest",
        augment: str = "none",
        mixup: float = 0.0,
    ) -> ImageTask:
        """The task, from what is prepared below `cache`. Raises UsageError if it is not."""
        from harness.data.augment import Recipe
        from harness.data.images import ImageTask

        self.ready(cache, None, seq_len)
        row = self.published
        return ImageTask.mapped(
            self.folder(cache),
            Recipe(row["size"], self.mean, self.deviation, augment, mixup),
            protocol=protocol,
            classes=row["classes"],
            batch_size=batch_size,
            data_seed=data_seed,
        )

    def _files(self, cache: Path) -> ImageFiles:
        files = ImageFiles.read(self.folder(cache))
        if files is None:
            raise UsageError(
                f"The task '{self.task}' is not prepared in '{cache}'; "
                f"run `htbench data prepare {self.task}`."
            )
        return files
