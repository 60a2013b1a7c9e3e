"""How a set of images is prepared: what its raw files are, and how shards, indexes and the stamp are written.

Raw files are the published parquet files, or the classic folders `<part>/<class>/<image>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.data.cache import MANIFEST, digest
from harness.data.corpus import RawFile
from harness.data.image_files import IMAGES, INDEX, ImageFiles, write_index
from harness.data.pictures import Pictures
from harness.errors import UsageError
from harness.prepare import raw
from harness.system import atomic


@dataclass(frozen=True)
class Copy:
    """A set for `prepare`, as it lies on this machine: see `work.Source`.

    Attributes:
        pictures: which set.
        units: what becomes a shard each: a file, or the folder of a class.
        in_folders: whether they are folders.
    """

    pictures: Pictures
    units: tuple[RawFile, ...]
    in_folders: bool

    @classmethod
    def at(cls, pictures: Pictures, folder: Path) -> Copy:
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
        return cls(pictures, tuple(units), in_folders=all(classes.values()))

    @property
    def task(self) -> str:
        """The name of the set."""
        return self.pictures.task

    @property
    def published(self) -> dict[str, Any]:
        """The row of the published copy."""
        return self.pictures.published

    def folder(self, cache: Path) -> Path:
        """Where the prepared data lie."""
        return self.pictures.folder(cache)

    # --- raw files ---

    @property
    def train_files(self) -> int:
        """How many units the training images come in."""
        return len(self._units("train"))

    def files(self, train_files: int) -> list[RawFile]:
        """All units: a set of images is prepared whole."""
        return list(self.units)

    def find(self, folder: Path, one: RawFile) -> Path | None:
        """The file or the folder; None if it is not there."""
        return folder / one.name if self.in_folders else raw.find(folder, one.name)

    def count(self, one: RawFile) -> int:
        """Images of a unit, on average."""
        return int(self.published["parts"][one.part]["images"]) // len(self._units(one.part))

    def size(self, one: RawFile) -> int:
        """Bytes to prepare for a unit, on average."""
        return self.count(one) * math.prod(self.pictures.shape)

    def _units(self, part: str) -> list[RawFile]:
        return [one for one in self.units if one.part == part]

    # --- shards ---

    def shard(self, one: RawFile) -> str:
        """The name of a unit's shard. It tells the layout, for the units of one are not those of another."""
        return f"{one.stem}-{'class' if self.in_folders else 'file'}"

    def done(self, one: RawFile, folder: Path) -> dict[str, Any] | None:
        """The stamp of a unit's shard; None if it is to be made."""
        stamp = atomic.read_json(self._stamp(one, folder))
        if not isinstance(stamp, dict):
            return None
        place = folder / (self.shard(one) + IMAGES)
        size = len(stamp["labels"]) * math.prod(self.pictures.shape)
        return stamp if place.is_file() and place.stat().st_size == size else None

    def begin(self, folder: Path, raw_folder: Path) -> None:
        """Nothing is needed."""

    def write(self, one: RawFile, path: Path, folder: Path, advance: Callable[[int], None]) -> None:
        """Make the shard of a unit, then its stamp."""
        from harness.prepare.picture_shards import write_shard

        label = one.number if self.in_folders else None
        place = folder / (self.shard(one) + IMAGES)
        content = write_shard(self.published, path, label, place, advance)
        atomic.write_json(self._stamp(one, folder), asdict(content))

    def _stamp(self, one: RawFile, folder: Path) -> Path:
        return folder / f"{self.shard(one)}.json"

    # --- the folder ---

    def finished(self, folder: Path, train_files: int) -> ImageFiles | None:
        """What the stamp says, if all is there."""
        files = ImageFiles.read(folder)
        return files if files is not None and not files.wrong(folder) else None

    def seal(self, folder: Path) -> ImageFiles:
        """Write the indexes of all parts, the manifest of digests, and the stamp.

        Raises UsageError if a part has another number of images than the published one.
        """
        row = self.published
        stamps = {one: self.done(one, folder) or {} for one in self.units}
        for part in row["parts"]:
            self._check_count(part, sum(len(stamps[one]["labels"]) for one in self._units(part)), folder)
            _write_index(folder, part, [stamps[one] for one in self._units(part)])
        shards = {
            part: {self.shard(one): len(stamps[one]["labels"]) for one in self._units(part)}
            for part in row["parts"]
        }
        manifest = {self.shard(one) + IMAGES: stamp["sha256"] for one, stamp in stamps.items()}
        manifest |= {part + INDEX: digest(folder / (part + INDEX)) for part in shards}
        atomic.write_json(folder / MANIFEST, manifest)
        files = ImageFiles(self.pictures.shape, row["validation"], shards)
        files.write(folder)
        return files

    def _check_count(self, part: str, images: int, folder: Path) -> None:
        published = self.published["parts"][part]["images"]
        if images != published:
            for one in self._units(part):  # so that they are read again
                self._stamp(one, folder).unlink()
            raise UsageError(
                f"The {part} images of '{self.task}' are {images} instead of the published {published}: they "
                f"are another or a partial copy; download them again."
            )


def _write_index(folder: Path, part: str, stamps: list[dict[str, Any]]) -> None:
    """In the order of the hashes."""
    import numpy as np

    columns = ([number for one in stamps for number in one[key]] for key in ("hashes", "labels"))
    hashes, labels = (np.array(column, dtype=np.uint64) for column in columns)
    order = np.argsort(hashes, kind="stable")
    write_index(folder, part, order, labels[order])


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
