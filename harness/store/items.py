"""The test split item by item, `test_items.bin`: what differs between two rows is judged on the same items.

An item is a row of text or an image. The file is a zlib stream of 16 digits that tell which items they are,
then their summed losses (float32, N), numbers of targets (int32, N), first differences of their clusters
(int32, N) and, for images, a bit each. The record has N and the digits once more: a file that is not the
record's is found. Three thousand items are 10 kB and a tenth of a millisecond.

A compact record (`docs/reproduction_records.py`) has the sums of text by document, which is all that tables
ask for: a word that says so, the digits, then sums (float64, M), targets and differences of M documents.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htbench.harness.show.note import Note
from htbench.harness.store.record import RunRecord
from htbench.harness.store.run_folder import RunFolder
from htbench.harness.system import atomic

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_ROUNDING = 1e-6  # of the mean of losses that are kept in float32, relative
_DIGITS = 16
_LARGEST = 64 << 20  # bytes of the content: four million items
_BY_DOCUMENT = b"by document\n"


@dataclass(frozen=True, eq=False)
class TestItems:
    """The scored items of a test split, in their order.

    Attributes:
        sums: float32 (N,), or float64 by document, the summed cross-entropy of each item's targets in nats.
        counts: int32 (N,), how many targets.
        clusters: int32 (N,), the document in which each item begins, or the number of the image. Items of one
            cluster are not independent.
        correct: bool (N,), whether each image is classified right; None for text.
        digest: the same for two runs if and only if they were scored on the same items.
    """

    sums: Array
    counts: Array
    clusters: Array
    correct: Array | None
    digest: str

    def by_document(self) -> TestItems:
        """The same with an item per cluster and float64 sums, (M,); the same again if it is so already."""
        import numpy as np

        if self.correct is not None:  # an image is a cluster of its own
            return self
        clusters, places = np.unique(self.clusters, return_inverse=True)
        sums, counts = (np.bincount(places, each) for each in (self.sums, self.counts))
        return replace(self, sums=sums, counts=counts.astype("<i4"), clusters=clusters)


def digest(fingerprint: str, places: Array, counts: Array, clusters: Array) -> str:
    """Sixteen hex digits that tell which items were scored.

    Args:
        fingerprint: of the data.
        places: (N,), the numbers of the items in the split.
        counts, clusters: as in `TestItems`; the length of the rows and their layout show in them.
    """
    hash = hashlib.sha256(fingerprint.encode())
    for array in (places, counts, clusters):
        hash.update(array.astype("<i8").tobytes())
    return hash.hexdigest()[:_DIGITS]


def write(path: Path, items: TestItems) -> None:
    """Replace the file atomically and durably; the same items give the same bytes."""
    atomic.write_bytes(path, packed(items))


def packed(items: TestItems, *, by_document: bool = False) -> bytes:
    """The bytes of the file; those of text `by_document` if asked."""
    import numpy as np

    summed = by_document and items.correct is None
    scored = items.by_document() if summed else items
    deltas = np.diff(scored.clusters, prepend=0)
    parts = [
        scored.sums.astype("<f8" if summed else "<f4"),
        scored.counts.astype("<i4"),
        deltas.astype("<i4"),
    ]
    parts += [] if scored.correct is None else [np.packbits(scored.correct)]
    head = (_BY_DOCUMENT if summed else b"") + scored.digest.encode()
    return zlib.compress(head + b"".join(map(bytes, parts)))


def read(files: RunFolder, record: RunRecord) -> TestItems | Note | None:
    """The scored items of a run.

    Args:
        files: of the run.
        record: of the run.

    Returns:
        None if the run has kept none, as one that has diverged. A note if its file is
        damaged or is not that of the record: the run then counts as damaged.
    """
    if not record.items_digest:
        return None
    try:
        data = files.test_items.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    items, loss = _parse(data, record.test_items), record.metrics.get("test_loss")
    if items is None or items.digest != record.items_digest or items.counts.sum() != record.test_tokens:
        return Note("items_damaged")
    mean = items.sums.sum(dtype=float) / record.test_tokens
    same = loss is None or math.isclose(mean, loss, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return items if same else Note("items_damaged")


def _parse(data: bytes, count: int) -> TestItems | None:
    """The items in a file; `count` is how many there are, or at least as many as there are documents."""
    import numpy as np

    most = len(_BY_DOCUMENT) + _DIGITS + 16 * count
    if most > _LARGEST:
        return None
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, most + 1)
    except zlib.error:
        return None
    kind, most_bits = "<f4", -(-count // 8)
    if content.startswith(_BY_DOCUMENT):
        content, kind, most_bits = content.removeprefix(_BY_DOCUMENT), "<f8", 0
        count = (len(content) - _DIGITS) // 16
    at = _DIGITS + np.dtype(kind).itemsize * count  # where the sums end
    bits = content[at + 8 * count :]
    if not stream.eof or count < 1 or len(content) < at + 8 * count or len(bits) not in (0, most_bits):
        return None
    counts, deltas = np.frombuffer(content, "<i4", 2 * count, at).reshape(2, count)
    return TestItems(
        sums=np.frombuffer(content, kind, count, _DIGITS),
        counts=counts,
        clusters=np.cumsum(deltas, dtype=np.int32),
        correct=np.unpackbits(np.frombuffer(bits, np.uint8), count=count).astype(bool) if bits else None,
        digest=content[:_DIGITS].decode(errors="replace"),
    )
