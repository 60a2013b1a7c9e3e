"""What is left to do until a corpus is prepared, what it takes, and whether it can be done here."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.data import hub, raw, shards
from harness.data.corpus import Corpus, RawFile
from harness.errors import UsageError

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Work:
    """What is left to do for some number of training files.

    Attributes:
        corpus: which one.
        folder: of the prepared data.
        raw: folder of the raw files.
        wanted: all raw files that are needed.
        left: those of them without shards.
    """

    corpus: Corpus
    folder: Path
    raw: Path
    wanted: list[RawFile]
    left: list[RawFile]

    @classmethod
    def of(cls, corpus: Corpus, cache: Path, raw_folder: Path, train_files: int) -> Work:
        """The work for the first `train_files` training files and all others."""
        folder, wanted = corpus.folder(cache), list(corpus.files(train_files))
        left = [one for one in wanted if shards.done(one, folder) is None]
        return cls(corpus, folder, raw_folder, wanted, left)

    @property
    def missing(self) -> list[RawFile]:
        """The raw files that are not here."""
        return [one for one in self.left if raw.find(self.raw, one.name) is None]

    @property
    def download(self) -> int:
        """Bytes to fetch, about."""
        return sum(self._part(one)["file_bytes"] for one in self.missing)

    @property
    def size(self) -> int:
        """Bytes to prepare, about: two for a token, eight for a document."""
        return sum(2 * self._part(one)["file_tokens"] + 8 * self.documents(one) for one in self.left)

    @property
    def lacks_tokenizer(self) -> bool:
        """Whether the tokenizer has to be fetched."""
        return not (self.folder / TOKENIZER).is_file() and raw.find(self.raw, TOKENIZER) is None

    def documents(self, one: RawFile) -> int:
        """Of a raw file, on average."""
        return int(self._part(one)["documents"] // self._part(one)["files"])

    def _part(self, one: RawFile) -> dict[str, Any]:
        part: dict[str, Any] = self.corpus.published["parts"][one.part]
        return part


def plan(work: Work) -> str:
    """What will be done, and what it takes."""
    task, files, missing = work.corpus.task, work.corpus.train_files, len(work.missing)
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
    row = work.corpus.published
    sources = [f"{hub.endpoint()}/datasets/{row['repository']}/tree/{row['revision']}"] * bool(missing)
    if work.lacks_tokenizer:
        its = row["tokenizer"]
        missing.append(f"'{TOKENIZER}' of {its['repository']}")
        sources.append(f"{hub.endpoint()}/{its['repository']}/tree/{its['revision']}")
    if missing and (why := hub.obstacle()):
        first = ", ".join(missing[:2] + missing[2:][-1:])
        raise UsageError(
            f"Files of '{work.corpus.task}' are missing ({len(missing)}: {first}) and {why}: download them "
            f"from {' and '.join(sources)}, put them into '{work.raw}', and run this command again."
        )


def _existing(place: Path) -> Path:
    """The folder, or the first above it that exists."""
    return next(one for one in (place.absolute(), *place.absolute().parents) if one.exists())


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
