"""How a set of images is prepared: raw files to shards of bytes, indexes and the stamp.

Raw files are the published parquet files, or the classic folders `<part>/<class>/<image>`.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from htbench.harness.data import raw
from htbench.harness.data.cache import MANIFEST, digest, wrong_size
from htbench.harness.data.copies import RawFile
from htbench.harness.data.pictures import Pictures
from htbench.harness.data.stamps import IMAGES, INDEX, ImageFiles, write_index
from htbench.harness.errors import UsageError
from htbench.harness.system import atomic

BATCH = 100  # images that are read at once

Row = Mapping[str, Any]  # of the published copy


@dataclass(frozen=True)
class PictureSource(Pictures):
    """A set for `prepare`, as it lies on this machine. Its instances go to other processes.

    Attributes:
        units: what becomes a shard each: a file, or the folder of a class.
        in_folders: whether they are folders.
    """

    units: tuple[RawFile, ...]
    in_folders: bool

    @classmethod
    def at(cls, pictures: Pictures, folder: Path) -> PictureSource:
        """What lies in the folder of raw files; without the classic folders, what should lie there."""
        parts = pictures.published["parts"]
        classes = {part: _subfolders(folder / row["folder"]) for part, row in parts.items()}
        if all(classes.values()):
            _check_classes(pictures, folder, classes)
            names = {part: [f"{parts[part]['folder']}/{name}" for name in classes[part]] for part in parts}
        else:
            names = {
                part: [row["pattern"].format(number) for number in range(row["files"])]
                for part, row in parts.items()
            }
        units = (RawFile(part, number, name) for part in names for number, name in enumerate(names[part]))
        return cls(**vars(pictures), units=tuple(units), in_folders=all(classes.values()))

    # --- raw files ---

    @property
    def train_files(self) -> int:
        """How many units the training images come in."""
        return len(self._units("train"))

    def files(self, train_files: int) -> list[RawFile]:
        """All units: a set of images is prepared whole."""
        return list(self.units)

    def count(self, file: RawFile) -> int:
        """Images of a unit, on average."""
        return int(self.published["parts"][file.part]["images"]) // len(self._units(file.part))

    def size(self, file: RawFile) -> int:
        """Bytes to prepare for a unit, on average."""
        return self.count(file) * math.prod(self.shape)

    def _units(self, part: str) -> list[RawFile]:
        return [file for file in self.units if file.part == part]

    # --- shards ---

    def _shard(self, file: RawFile) -> str:
        """The name of a unit's shard. It tells the layout, for the units of one are not those of another."""
        return f"{file.stem}-{'class' if self.in_folders else 'file'}"

    def done(self, file: RawFile, folder: Path) -> dict[str, Any] | None:
        """The stamp of a unit's shard; None if it is to be made."""
        name = self._shard(file)
        stamp = atomic.read_json(folder / f"{name}.json")
        if not isinstance(stamp, dict):
            return None
        size = len(stamp["labels"]) * math.prod(self.shape)
        return None if wrong_size(folder, {name + IMAGES: size}) else stamp

    def begin(self, folder: Path, raw_folder: Path) -> None:
        """Nothing is needed."""

    def write(self, file: RawFile, path: Path, folder: Path) -> None:
        """Make the shard of a unit, then its stamp: the digest, and the hash and the class of every image.

        Raises:
            UsageError: it can't be read, or has an image or a class that the set can't have.
        """
        published, name = self.published, self._shard(file)
        hashes: list[int] = []
        labels: list[int] = []
        with raw.Shard(folder / (name + IMAGES)) as shard:
            for encoded, label in _rows(published, path, file.number if self.in_folders else None):
                pixels = _decode(published, encoded, path).tobytes()
                shard.write(pixels)
                # Where the pixels are what is published, another file of them is the same image.
                image = pixels if published["exact"] else encoded
                hashes.append(int.from_bytes(hashlib.sha256(image).digest()[:8], "big"))
                labels.append(label)
            stamp = {"sha256": shard.finish(), "hashes": hashes, "labels": labels}
        atomic.write_json(folder / f"{name}.json", stamp)

    # --- the folder ---

    def finished(self, folder: Path, train_files: int) -> ImageFiles | None:
        """What the folder's stamp says, if all is there."""
        files = ImageFiles.read(folder)
        return files if files is not None and not wrong_size(folder, files.sizes) else None

    def seal(self, folder: Path) -> ImageFiles:
        """Write the indexes of all parts, the manifest of digests, and the stamp.

        Raises UsageError if a part has another number of images than the published one.
        """
        row = self.published
        shards: dict[str, dict[str, int]] = {}
        manifest: dict[str, str] = {}
        for part in row["parts"]:
            stamps = {self._shard(file): self.done(file, folder) or {} for file in self._units(part)}
            shards[part] = {name: len(stamp["labels"]) for name, stamp in stamps.items()}
            self.check_total(
                part, "images", sum(shards[part].values()), [folder / f"{name}.json" for name in stamps]
            )
            hashes, labels = (
                np.array([number for stamp in stamps.values() for number in stamp[key]], dtype=np.uint64)
                for key in ("hashes", "labels")
            )
            order = np.argsort(hashes, kind="stable")
            write_index(folder, part, order, labels[order])
            manifest |= {name + IMAGES: stamp["sha256"] for name, stamp in stamps.items()}
        manifest |= {part + INDEX: digest(folder / (part + INDEX)) for part in shards}
        atomic.write_json(folder / MANIFEST, manifest)
        files = ImageFiles(self.shape, row["validation"], shards)
        files.write(folder)
        return files


def _subfolders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _check_classes(pictures: Pictures, folder: Path, classes: dict[str, list[str]]) -> None:
    expected = pictures.published["classes"]
    for part, names in classes.items():
        if len(names) != expected:
            place = folder / pictures.published["parts"][part]["folder"]
            raise UsageError(f"'{place}' has {len(names)} folders; each of the {expected} classes needs one.")
    if len({tuple(names) for names in classes.values()}) > 1:
        raise UsageError(f"The folders of the classes in '{folder}' have other names in each part.")


# --- images ---


def _decode(published: Row, encoded: bytes, path: Path) -> npt.NDArray[Any]:
    """An image file as uint8 (3, side, side): its middle square, resized if need be (bicubic, as Pillow's).

    Raises UsageError if it is no image, or if the set has one size only and this is another.
    """
    from PIL import Image

    side = published["side"]
    try:
        image = Image.open(io.BytesIO(encoded)).convert("RGB")
    except OSError as error:
        raise UsageError(f"'{path}' has an image that can't be read ({error}); download it again.") from None
    width, height = image.size
    if (width, height) != (side, side):
        if published["exact"]:
            raise UsageError(
                f"'{path}' has an image of {width}x{height} pixels instead of {side}x{side}: it is of "
                f"another dataset."
            )
        least = min(width, height)
        left, top = (width - least) / 2, (height - least) / 2
        square = (left, top, left + least, top + least)
        image = image.resize((side, side), Image.Resampling.BICUBIC, box=square)
    return np.asarray(image).transpose(2, 0, 1)


def _rows(published: Row, path: Path, label: int | None) -> Iterator[tuple[bytes, int]]:
    """The encoded images of a file with their classes, or those of the folder of one class, `label`."""
    import datasets

    form, files, options = "parquet", [path], dict[str, Any]()
    if label is not None:
        form, options = "imagefolder", {"drop_labels": True}
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    with raw.rows(path, form, files, **options) as rows:
        image, classes = "image", ""
        if label is None:
            columns = rows.column_names or list(next(iter(rows)))
            image, classes = (_column(published, path, columns, kind) for kind in ("image", "label"))
        # Images as they are in their files.
        for batch in rows.cast_column(image, datasets.Image(decode=False)).iter(batch_size=BATCH):
            labels = batch[classes] if classes else [label] * len(batch[image])
            for encoded, number in zip(batch[image], labels, strict=True):
                if not 0 <= number < published["classes"]:
                    raise UsageError(
                        f"'{path}' has the class {number}; there should be {published['classes']}, from 0 on."
                    )
                yield encoded["bytes"] or Path(encoded["path"]).read_bytes(), number


def _column(published: Row, path: Path, columns: list[str], kind: str) -> str:
    names: list[str] = published["columns"][kind]
    column = next((name for name in names if name in columns), None)
    if column is None:
        raise UsageError(
            f"'{path}' has the columns {', '.join(columns)}, and none of them is {' or '.join(names)}: it is "
            f"of another dataset."
        )
    return column
