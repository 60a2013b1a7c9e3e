"""How a set of images is prepared: raw files to shards of bytes, indexes and the stamp."""

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

Row = Mapping[str, Any]  # of the published copy


@dataclass(frozen=True)
class PictureSource(Pictures):
    """A set for `prepare`."""

    def done(self, file: RawFile, folder: Path) -> dict[str, Any] | None:
        """The stamp of a raw file's shard; None if it is to be made."""
        name = _shard(file)
        stamp = atomic.read_json(folder / f"{name}.json")
        if not isinstance(stamp, dict):
            return None
        size = len(stamp["labels"]) * math.prod(self.shape)
        return None if wrong_size(folder, {name + IMAGES: size}) else stamp

    def write(self, file: RawFile, path: Path, folder: Path) -> None:
        """Make the shard of a raw file, then its stamp: its digest, and the hash and class of every image.

        Raises:
            UsageError: it can't be read, or has an image or a class that the set can't have.
        """
        published, shard = self.published, folder / (_shard(file) + IMAGES)
        hashes: list[int] = []
        labels: list[int] = []
        with atomic.writing(shard) as images:
            for encoded, label in _rows(published, path):
                pixels = _decode(published, encoded, path).tobytes()
                images.write(pixels)
                # Where the pixels are what is published, another file of them is the same image.
                image = pixels if published["exact"] else encoded
                hashes.append(int.from_bytes(hashlib.sha256(image).digest()[:8], "big"))
                labels.append(label)
        stamp = {"sha256": digest(shard), "hashes": hashes, "labels": labels}
        atomic.write_json(shard.with_suffix(".json"), stamp)

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
            raw_files = (file for file in self.files(self.train_files) if file.part == part)
            stamps = {_shard(file): self.done(file, folder) or {} for file in raw_files}
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


def _shard(file: RawFile) -> str:
    return f"{file.stem}-file"


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


def _rows(published: Row, path: Path) -> Iterator[tuple[bytes, int]]:
    """The encoded images of a file with their classes."""
    with raw.rows(path, "parquet") as rows:
        import datasets  # which raw.rows has told to ask no hub

        columns = rows.column_names or list(next(iter(rows)))
        chosen = {}
        for kind, names in published["columns"].items():
            chosen[kind] = next((name for name in names if name in columns), None)
            if chosen[kind] is None:
                raise UsageError(
                    f"'{path}' has the columns {', '.join(columns)}, and none of them is "
                    f"{' or '.join(names)}: it is of another dataset."
                )
        image, label = chosen["image"], chosen["label"]
        # Images as they are in their files.
        for row in rows.cast_column(image, datasets.Image(decode=False)):
            if not 0 <= row[label] < published["classes"]:
                raise UsageError(
                    f"'{path}' has the class {row[label]}; there should be {published['classes']}, from 0 on."
                )
            yield row[image]["bytes"] or Path(row[image]["path"]).read_bytes(), row[label]
