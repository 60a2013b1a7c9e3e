"""What is left to do until a data set is prepared, what it takes, and whether it can be done here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from harness.data.corpus import RawFile
from harness.errors import UsageError
from harness.prepare import hub, raw

TOKENIZER = "tokenizer.json"


Made = TypeVar("Made", covariant=True)  # the content of a stamp


class Source(Protocol[Made]):
    """A published data set that can be prepared file by file. Its instances go to other processes."""

    @property
    def task(self) -> str:
        """Its name."""

    @property
    def published(self) -> dict[str, Any]:
        """The row of the published copy."""

    @property
    def train_files(self) -> int:
        """How many training files there are in all."""

    def folder(self, cache: Path) -> Path:
        """Where the prepared data lie."""

    def files(self, train_files: int) -> list[RawFile]:
        """The first `train_files` training files and all others."""

    def find(self, folder: Path, one: RawFile) -> Path | None:
        """A raw file; None if it is not there."""

    def count(self, one: RawFile) -> int:
        """Documents or images of a raw file, on average."""

    def size(self, one: RawFile) -> int:
        """Bytes to prepare for a raw file, about."""

    def done(self, one: RawFile, folder: Path) -> object | None:
        """None if a raw file has no shards yet."""

    def begin(self, folder: Path, raw_folder: Path) -> None:
        """Put into the empty folder what `write` needs."""

    def write(self, one: RawFile, path: Path, folder: Path, advance: Callable[[int], None]) -> None:
        """Make the shards of a raw file, in a process of its own."""

    def finished(self, folder: Path, train_files: int) -> Made | None:
        """The stamp, if so much is prepared."""

    def seal(self, folder: Path) -> Made:
        """Write the manifest of digests and the stamp."""


@dataclass(frozen=True)
class Work:
    """What is left to do for some number of training files.

    Attributes:
        source: of what.
        folder: of the prepared data.
        raw: folder of the raw files.
        wanted: all raw files that are needed.
        left: those of them without shards.
    """

    source: Source[object]
    folder: Path
    raw: Path
    wanted: list[RawFile]
    left: list[RawFile]

    @classmethod
    def of(cls, source: Source[object], cache: Path, raw_folder: Path, train_files: int) -> Work:
        """The work for the first `train_files` training files and all others."""
        folder, wanted = source.folder(cache), source.files(train_files)
        left = [one for one in wanted if source.done(one, folder) is None]
        return cls(source, folder, raw_folder, wanted, left)

    @property
    def missing(self) -> list[RawFile]:
        """The raw files that are not here."""
        return [one for one in self.left if self.source.find(self.raw, one) is None]

    @property
    def download(self) -> int:
        """Bytes to fetch, about."""
        parts = self.source.published["parts"]
        return sum(int(parts[one.part]["file_bytes"]) for one in self.missing)

    @property
    def size(self) -> int:
        """Bytes to prepare, about."""
        return sum(map(self.source.size, self.left))

    @property
    def lacks_tokenizer(self) -> bool:
        """Whether the tokenizer has to be fetched."""
        if "tokenizer" not in self.source.published:
            return False
        return not (self.folder / TOKENIZER).is_file() and raw.find(self.raw, TOKENIZER) is None


def plan(work: Work) -> str:
    """What will be done, and what it takes."""
    task, files, missing = work.source.task, work.source.train_files, len(work.missing)
    train = sum(one.part == "train" for one in work.wanted)
    head = f"{task}: {train} of {files} training files, {len(work.wanted) - train} held-out files"
    if not work.left:
        return f"{head}; all are prepared in '{work.folder}'"
    free = shutil.disk_usage(_existing(work.folder)).free
    return (
        f"{head}; {len(work.left)} to prepare, {missing} to download first: {_gb(work.download)} to download "
        f"into '{work.raw}', {_gb(work.size)} to write to '{work.folder}', {_gb(free)} free there"
    )


def check_disk(work: Work) -> None:
    """Raise UsageError if the disks have too little space."""
    places = {work.raw: work.download, work.folder: work.size}
    needed: dict[int, int] = {}
    for place, size in places.items():
        device = _existing(place).stat().st_dev
        needed[device] = needed.get(device, 0) + size
    for place in places:
        total, free = needed[_existing(place).stat().st_dev], shutil.disk_usage(_existing(place)).free
        if total > free:
            raise UsageError(
                f"'{place}' has {_gb(free)} free, and {_gb(total)} are needed there (raw files to download "
                f"{_gb(work.download)}, prepared data {_gb(work.size)}); make room, or set HTBENCH_DATA or "
                f"--root to another disk."
            )


def check_missing(work: Work) -> None:
    """Raise UsageError if files have to be fetched and the network is not there."""
    missing = [f"'{one.name}'" for one in work.missing]
    row = work.source.published
    sources = [f"{hub.endpoint()}/datasets/{row['repository']}/tree/{row['revision']}"] * bool(missing)
    if work.lacks_tokenizer:
        its = row["tokenizer"]
        missing.append(f"'{TOKENIZER}' of {its['repository']}")
        sources.append(f"{hub.endpoint()}/{its['repository']}/tree/{its['revision']}")
    if missing and (why := hub.obstacle()):
        first = ", ".join(missing[:2] + missing[2:][-1:])
        raise UsageError(
            f"Files of '{work.source.task}' are missing ({len(missing)}: {first}) and {why}: download them "
            f"from {' and '.join(sources)}, put them into '{work.raw}', and run this command again."
        )


def _existing(place: Path) -> Path:
    """The folder, or the first above it that exists."""
    return next(one for one in (place.absolute(), *place.absolute().parents) if one.exists())


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
