"""Task `digits`: the 1,797 handwritten digits (8x8, grey) that scikit-learn ships, so nothing is downloaded.

They are read from its data file; importing scikit-learn takes over a second and is not needed.
Source: Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits" (1998), UCI repository.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htbench.harness.data.cache import cached, installed_file

if TYPE_CHECKING:
    import numpy.typing as npt

    from htbench.harness.data.images import ImageTask

CLASSES = 10
HELD_OUT_SHARE = 1 / 6  # of each class, for each of `val` and `test`
SPLIT_SEED = 0


@functools.cache
def fingerprint() -> str:
    """Sixteen hex digits over the data file and the parameters of the splits."""
    shape = repr((HELD_OUT_SHARE, SPLIT_SEED)).encode()
    return hashlib.sha256(shape + _data_file().read_bytes()).hexdigest()[:16]


@functools.cache
def train_size(cache: Path, seq_len: int | None, protocol: str = "honest") -> int:
    """The number of training images."""
    with gzip.open(_data_file(), "rt") as file:
        members = Counter(line.rpartition(",")[2] for line in file)
    held_out = 1 if protocol == "paper" else 2
    return sum(count - held_out * round(HELD_OUT_SHARE * count) for count in members.values())


def load(cache: Path, *, seq_len: int | None, protocol: str = "honest", **settings: int) -> ImageTask:
    """The task, from an array file below `cache`, made if missing. Images have no `seq_len`."""
    from htbench.harness.data.images import ImageTask

    file = cached(cache / f"digits-{fingerprint()}", _fill) / "digits.npz"
    return ImageTask.open(file, protocol=protocol, classes=CLASSES, **settings)


def splits() -> dict[str, npt.NDArray[Any]]:
    """`<split>_images` float32 (N, 1, 8, 8) and `<split>_labels` int64 (N,) of `train`, `val` and `test`.

    Each class is divided in the same proportions. The training images have mean 0 and standard deviation 1.
    """
    import numpy as np

    with gzip.open(_data_file(), "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.int64)  # 64 grey values 0-16, then the class
    images, labels = table[:, :-1].reshape(-1, 1, 8, 8).astype(np.float32), table[:, -1]
    rows = _stratified(labels)
    mean, deviation = images[rows["train"]].mean(), images[rows["train"]].std()
    arrays: dict[str, npt.NDArray[Any]] = {}
    for split, chosen in rows.items():
        arrays[f"{split}_images"] = (images[chosen] - mean) / deviation
        arrays[f"{split}_labels"] = labels[chosen]
    return arrays


def _stratified(labels: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Row numbers of each split, ascending."""
    import numpy as np

    from htbench.harness.data.order import permutation

    rows: dict[str, list[npt.NDArray[Any]]] = {"train": [], "val": [], "test": []}
    shuffled = permutation(len(labels), SPLIT_SEED, epoch=0)
    for label in range(CLASSES):
        members = shuffled[labels[shuffled] == label]
        held_out = round(HELD_OUT_SHARE * len(members))
        rows["val"].append(members[:held_out])
        rows["test"].append(members[held_out : 2 * held_out])
        rows["train"].append(members[2 * held_out :])
    return {split: np.sort(np.concatenate(parts)) for split, parts in rows.items()}


def _fill(folder: Path) -> None:
    import numpy as np

    arrays: dict[str, Any] = splits()  # Any: the stubs take every keyword for `allow_pickle`
    np.savez(folder / "digits.npz", **arrays)


def _data_file() -> Path:
    return installed_file("digits", "scikit-learn", "sklearn", "datasets/data/digits.csv.gz")
