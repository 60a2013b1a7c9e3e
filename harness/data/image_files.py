"""Prepared images on disk: raw bytes in .npy files that are memory-mapped, so that no process holds a set.

A folder has `<part>.npy` uint8 (N, C, H, W) and `<part>_labels.npy` int64 (N,) of the parts `train` and
`test`. `validation.npy` int64 holds the rows of `train` that are the validation split. No second copy of an
image is needed for another protocol.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

PARTS = ("train", "test")
VALIDATION = "validation.npy"


def write_part(folder: Path, part: str, images: Array, labels: Array) -> None:
    """Write the images uint8 (N, C, H, W) and labels (N,) of a part."""
    np.save(folder / f"{part}.npy", images)
    np.save(folder / f"{part}_labels.npy", labels.astype(np.int64))


def write_validation(folder: Path, rows: Array) -> None:
    """Write which rows of `train` are the validation split."""
    np.save(folder / VALIDATION, np.sort(rows).astype(np.int64))


def splits(folder: Path, protocol: str) -> dict[str, tuple[str, Array]]:
    """The part and the rows of every split.

    With protocol "paper" validation images are trained on, too, and the test split stands for them.
    """
    sizes = {part: len(np.load(folder / f"{part}_labels.npy", mmap_mode="r")) for part in PARTS}
    everything = {part: np.arange(size) for part, size in sizes.items()}
    test = ("test", everything["test"])
    if protocol == "paper":
        return {"train": ("train", everything["train"]), "val": test, "test": test}
    held_out = np.load(folder / VALIDATION)
    rest = np.delete(everything["train"], held_out)
    return {"train": ("train", rest), "val": ("train", held_out), "test": test}
