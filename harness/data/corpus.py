"""A published corpus as a task: which files give which splits, and how much of it is prepared. Torch-free.

Every raw file becomes shards of its own, so the text of a sample does not depend on how many are prepared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data import copies
from harness.data.prepared import Prepared, Shard
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.data.corpus_task import CorpusTask

# Raised when `shards.py` makes other tokens of the same text: prepared data then is prepared anew.
RECIPE = 1
_SPARE = 0.97  # estimated tokens of a file times this: rather a file too many than one too few


@dataclass(frozen=True)
class RawFile:
    """File `number` of a part ("train", "validation") of the published copy."""

    part: str
    number: int
    name: str  # in the repository

    @property
    def stem(self) -> str:
        """Names what is made of it."""
        return f"{self.part}-{self.number:05d}"


@dataclass(frozen=True)
class Corpus:
    """One published corpus.

    Attributes:
        task: its name.
        columns: what is read of a raw file; the first is the text.
        splits: the splits that a file of each part is divided into.
        split_of: the split of a document, from the row of the published copy, the part and the columns.
        paper: which splits stand for which under protocol "paper".
    """

    task: str
    columns: tuple[str, ...]
    splits: Mapping[str, tuple[str, ...]]
    split_of: Callable[[Mapping[str, Any], str, Mapping[str, str]], str]
    paper: Mapping[str, tuple[str, ...]]

    @property
    def published(self) -> dict[str, Any]:
        """The row of the published copy."""
        return copies.row(self.task)

    @property
    def train_files(self) -> int:
        """How many training files the published copy has."""
        return int(self.published["parts"]["train"]["files"])

    @property
    def is_whole(self) -> bool:
        """Whether held-out text lies in all training files, so that all of them are needed."""
        return self.splits["train"] != ("train",)

    def files(self, train_files: int) -> Iterator[RawFile]:
        """The first `train_files` training files, then all files of other parts."""
        for part, row in self.published["parts"].items():
            for number in range(train_files if part == "train" else row["files"]):
                yield RawFile(part, number, row["pattern"].format(number))

    # --- the functions of a row in the registry ---

    def fingerprint(self) -> str:
        """Sixteen hex digits over the description of the copy and the recipe, not over its bytes."""
        text = f"{copies.digest(self.task)} {RECIPE} {self.columns} {sorted(self.splits.items())}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def folder(self, cache: Path) -> Path:
        """Where the prepared data lie."""
        return cache / f"{self.task}-{self.fingerprint()}"

    def train_size(
        self, cache: Path, seq_len: int, *, layout: str, held_out_tokens: int = 0, protocol: str = "honest"
    ) -> int:
        """The number of training samples of the whole corpus, estimated where it is not prepared."""
        prepared = Prepared.read(self.folder(cache))
        if prepared is not None and prepared.train_files == self.train_files:
            return sum(s.rows(layout, seq_len) for s in self.shards("train", protocol, prepared))
        part = self.published["parts"]["train"]
        if layout == "padded":
            return int(part["documents"])
        return int(part["files"] * part["file_tokens"] / _SPARE) // seq_len

    def files_needed(
        self, samples: int | None, seq_len: int, layout: str, prepared: Prepared | None = None
    ) -> int:
        """How many training files a run reads.

        Args:
            samples: that it trains on; None: whole epochs.
            seq_len: tokens per row.
            layout: "padded" or "packed".
            prepared: what is there; sizes of other files are estimated.
        """
        if self.is_whole or samples is None:
            return self.train_files
        part = self.published["parts"]["train"]
        documents, tokens = part["documents"] // part["files"], int(part["file_tokens"] * _SPARE)
        rows = 0
        for number in range(self.train_files):
            name = f"train-{number:05d}"
            shard = prepared and prepared.shards.get(name)
            rows += (shard or Shard(name, documents, tokens)).rows(layout, seq_len)
            if rows >= samples:
                return number + 1
        return self.train_files

    def shards(self, split: str, protocol: str, prepared: Prepared) -> list[Shard]:
        """The shards of a split in their order: file by file."""
        splits: Sequence[str] = self.paper[split] if protocol == "paper" else (split,)
        found = [shard for shard in prepared.shards.values() if shard.split in splits]
        return sorted(found, key=lambda shard: (shard.number, splits.index(shard.split)))

    def ready(
        self,
        cache: Path,
        samples: int | None,
        seq_len: int,
        *,
        layout: str,
        held_out_tokens: int = 0,
        protocol: str = "honest",
    ) -> None:
        """Raise UsageError, with the command to run, unless all that a run reads is there in full size."""
        folder = self.folder(cache)
        prepared = Prepared.read(folder)
        needed = self.files_needed(samples, seq_len, layout, prepared)
        if prepared is None or prepared.train_files < needed:
            raise self.lacking(cache, needed, prepared)
        for shard in prepared.shards.values():
            if shard.number < needed or shard.split != "train":
                shard.check(folder)

    def lacking(self, cache: Path, needed: int, prepared: Prepared | None) -> UsageError:
        """The sentence on data that is not prepared."""
        there = prepared.train_files if prepared else 0
        shards = "" if self.is_whole else f" --shards {needed}"
        return UsageError(
            f"The task '{self.task}' needs {needed} of its {self.train_files} training files here, and "
            f"{there} are prepared in '{cache}'; run `htbench data prepare {self.task}{shards}`."
        )

    def load(
        self,
        cache: Path,
        *,
        batch_size: int,
        seq_len: int,
        data_seed: int,
        layout: str,
        held_out_tokens: int,
        protocol: str = "honest",
    ) -> CorpusTask:
        """The task, from what is prepared below `cache`. Raises UsageError if nothing is."""
        from harness.data.corpus_task import CorpusTask

        prepared = Prepared.read(self.folder(cache))
        if prepared is None:
            raise self.lacking(cache, self.files_needed(batch_size, seq_len, layout), None)
        return CorpusTask(
            self.folder(cache),
            {split: self.shards(split, protocol, prepared) for split in ("train", "val", "test")},
            prepared,
            complete=prepared.train_files == self.train_files,
            batch_size=batch_size,
            seq_len=seq_len,
            data_seed=data_seed,
            layout=layout,
            held_out_tokens=held_out_tokens,
        )
