"""The images of one raw file or one folder: read, decode, cut, write."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.system import atomic

BATCH = 100  # images that are read at once

Array = npt.NDArray[Any]
Row = Mapping[str, Any]  # of the published copy


@dataclass(frozen=True)
class Content:
    """What a shard holds: its digest, and the hash and the class of every image."""

    sha256: str
    hashes: list[int]
    labels: list[int]


def write_shard(
    published: Row, path: Path, label: int | None, place: Path, advance: Callable[[int], None]
) -> Content:
    """Write the images of a parquet file, or of the folder of a class.

    Args:
        published: the row of the copy.
        path: the file or the folder.
        label: the class of the folder; None: `path` is a file.
        place: gets the images.
        advance: is told the number of images now and then.

    Raises:
        UsageError: it can't be read, or has an image or a class that the set can't have.
    """
    temporary, digest = atomic.temporary_name(place), hashlib.sha256()
    hashes: list[int] = []
    labels: list[int] = []
    try:
        with open(temporary, "wb") as file:
            for encoded, its in _rows(published, path, label):
                pixels = decode(published, encoded, path).tobytes()
                file.write(pixels)
                digest.update(pixels)
                # Where the pixels are what is published, another file of them is the same image.
                hashes.append(_hash(pixels if published["exact"] else encoded))
                labels.append(its)
                if len(labels) % BATCH == 0:
                    advance(BATCH)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
    advance(len(labels) % BATCH)
    return Content(digest.hexdigest(), hashes, labels)


def decode(published: Row, encoded: bytes, path: Path) -> Array:
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
                f"another data set."
            )
        least = min(width, height)
        left, top = (width - least) / 2, (height - least) / 2
        square = (left, top, left + least, top + least)
        image = image.resize((side, side), Image.Resampling.BICUBIC, box=square)
    return np.asarray(image).transpose(2, 0, 1)


def _rows(published: Row, path: Path, label: int | None) -> Iterator[tuple[bytes, int]]:
    """The encoded images and their classes."""
    try:
        for image, its in _of_file(published, path) if label is None else _of_folder(path, label):
            if not 0 <= its < published["classes"]:
                raise UsageError(
                    f"'{path}' has the class {its}; there should be {published['classes']}, from 0 on."
                )
            yield image["bytes"] or Path(image["path"]).read_bytes(), its
    except UsageError:
        raise
    except Exception as error:  # of pyarrow and datasets
        said = str(error).strip().splitlines() or [""]
        raise UsageError(
            f"'{path}' can't be read ({type(error).__name__}: {said[0]}); download it again."
        ) from None


def _of_file(published: Row, path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    rows = _dataset("parquet", [path])
    columns = rows.column_names or list(next(iter(rows)))
    image, label = (_column(published, path, columns, kind) for kind in ("image", "label"))
    for batch in _encoded(rows, image).iter(batch_size=BATCH):
        yield from zip(batch[image], batch[label], strict=True)


def _of_folder(path: Path, label: int) -> Iterator[tuple[dict[str, Any], int]]:
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    rows = _dataset("imagefolder", files, drop_labels=True)
    for batch in _encoded(rows, "image").iter(batch_size=BATCH):
        yield from ((image, label) for image in batch["image"])


def _dataset(form: str, files: list[Path], **options: Any) -> Any:
    """Rows of local files. Streaming them needs no second copy on the disk."""
    import datasets

    names = [str(file) for file in files]
    return datasets.load_dataset(form, data_files=names, split="train", streaming=True, **options)


def _encoded(rows: Any, image: str) -> Any:
    """The rows with images as they are in their files."""
    import datasets

    return rows.cast_column(image, datasets.Image(decode=False))


def _column(published: Row, path: Path, columns: list[str], kind: str) -> str:
    names: list[str] = published["columns"][kind]
    found = next((name for name in names if name in columns), None)
    if found is None:
        raise UsageError(
            f"'{path}' has the columns {', '.join(columns)}, and none of them is {' or '.join(names)}: it is "
            f"of another data set."
        )
    return found


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
