"""The published corpora as tasks: which files give which splits, and what of them is prepared. Torch-free.

Every raw file becomes shards of its own, so the text of a sample does not depend on how many are prepared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htbench.harness.data.cache import TOKEN_BYTES, check_sizes
from htbench.harness.data.copies import Published
from htbench.harness.data.stamps import Prepared, Shard
from htbench.harness.errors import UsageError

if TYPE_CHECKING:
    from htbench.harness.data.text import TextTask

TEST_TOKENS = 10_000_000  # about so many are scored: C4 has several times as many
_SPARE = 0.97  # estimated tokens of a file times this: rather a file too many than one too few


@dataclass(frozen=True)
class Corpus(Published):
    """One published corpus.

    Attributes:
        columns: what is read of a raw file, the text first; of a file of tokens, where a document starts.
        splits: the splits that a file of each part is divided into.
        split_of: the split of a document, from the row of the published copy, the part and the columns.
        paper: which splits stand for which under protocol "paper".
    """

    columns: tuple[str, ...]
    splits: Mapping[str, tuple[str, ...]]
    split_of: Callable[[Mapping[str, Any], str, Mapping[str, Any]], str]
    paper: Mapping[str, tuple[str, ...]]

    @property
    def prepared_by(self) -> str:
        """What is read, and how it is divided."""
        return f"{self.columns} {sorted(self.splits.items())}"

    @property
    def is_tokens(self) -> bool:
        """Whether tokens are published, and not text; then its numbers of documents are estimates."""
        return bool(self.published["format"] == "tokens")

    @property
    def is_whole(self) -> bool:
        """Whether held-out text lies in all training files, so that all of them are needed."""
        return self.splits["train"] != ("train",)

    def shards(self, split: str, protocol: str, prepared: Prepared) -> list[Shard]:
        """The shards of a split in their order: file by file."""
        splits: Sequence[str] = self.paper[split] if protocol == "paper" else (split,)
        shards = [shard for shard in prepared.shards.values() if shard.split in splits]
        return sorted(shards, key=lambda shard: (shard.number, splits.index(shard.split)))

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

    # --- the functions of a row in the table of tasks ---

    def train_size(
        self, cache: Path, seq_len: int, *, layout: str, protocol: str = "honest", **others: Any
    ) -> int:
        """The number of training samples of the whole corpus, estimated where it is not prepared."""
        prepared = Prepared.read(self.folder(cache))
        if prepared is not None and prepared.train_files == self.train_files:
            return sum(s.rows(layout, seq_len) for s in self.shards("train", protocol, prepared))
        part = self.published["parts"]["train"]
        if layout == "padded":
            return int(part["documents"])
        return int(part["files"] * part["file_tokens"] / _SPARE) // seq_len

    def ready(self, cache: Path, samples: int | None, seq_len: int, *, layout: str, **others: Any) -> None:
        """Raise UsageError, with the command to run, unless all that a run reads is there in full size."""
        folder = self.folder(cache)
        prepared = Prepared.read(folder)
        needed = self.files_needed(samples, seq_len, layout, prepared)
        if prepared is None or prepared.train_files < needed:
            raise self._lacking(cache, needed, prepared)
        for shard in prepared.shards.values():
            if shard.number < needed or shard.split != "train":
                check_sizes(folder, shard.sizes)

    def _lacking(self, cache: Path, needed: int, prepared: Prepared | None) -> UsageError:
        there = prepared.train_files if prepared else 0
        shards = "" if self.is_whole else f" --shards {needed}"
        return UsageError(
            f"The task '{self.task}' needs {needed} of its {self.train_files} training files here, and "
            f"{there} are prepared in '{cache}'; run `htbench data prepare {self.task}{shards}`."
        )

    def load(
        self, cache: Path, *, seq_len: int, layout: str, protocol: str = "honest", **settings: int
    ) -> TextTask:
        """The task, from what is prepared below `cache`. Raises UsageError if nothing is."""
        import numpy as np

        from htbench.harness.data.text import ShardRows, TextTask

        folder = self.folder(cache)
        prepared = Prepared.read(folder)
        if prepared is None:
            raise self._lacking(cache, self.files_needed(settings["batch_size"], seq_len, layout), None)
        shards = {split: self.shards(split, protocol, prepared) for split in ("train", "val", "test")}
        rows = {split: ShardRows(folder, some, prepared, layout, seq_len) for split, some in shards.items()}
        for split, some in rows.items():
            if not len(some):
                raise UsageError(f"seq_len={seq_len} is longer than all text of '{split}' in '{folder}'.")
        complete = prepared.train_files == self.train_files
        lengths, more = np.load(folder / TOKEN_BYTES), {"test_tokens": TEST_TOKENS, **settings}
        return TextTask(rows, lengths, seq_len=seq_len, complete=complete, **more)


# --- the corpora ---


def _split_of_c4(published: Mapping[str, Any], part: str, document: Mapping[str, str]) -> str:
    """Training files are for training. The published validation split is halved by the hash of the URL."""
    if part == "train":
        return "train"
    return ("val", "test")[hashlib.sha256(document["url"].encode()).digest()[0] & 1]


# English C4, with the tokens of T5; the copy of the Allen Institute for AI. Source: Raffel et al., "Exploring
# the limits of transfer learning with a unified text-to-text transformer" (JMLR 2020).
C4 = Corpus(
    "c4",
    columns=("text", "url"),
    splits={"train": ("train",), "validation": ("val", "test")},
    split_of=_split_of_c4,
    paper={"train": ("train",), "val": ("val", "test"), "test": ("val", "test")},
)


def _split_of_openwebtext(published: Mapping[str, Any], part: str, document: Mapping[str, str]) -> str:
    """Of `modulus` (2000) documents one is for validation and one for test, by the hash of the text."""
    first = hashlib.sha256(document["text"].encode()).digest()[:8]
    return {0: "val", 1: "test"}.get(int.from_bytes(first, "big") % published["modulus"], "train")


# The text of linked web pages, with the tokens of GPT-2. It has no published splits. Source: Gokaslan and
# Cohen, "OpenWebText corpus" (2019).
OPENWEBTEXT = Corpus(
    "openwebtext",
    columns=("text",),
    splits={"train": ("train", "val", "test")},
    split_of=_split_of_openwebtext,
    paper={"train": ("train", "val"), "val": ("test",), "test": ("test",)},
)


def _split_of_fineweb(published: Mapping[str, Any], part: str, document: Mapping[str, Any]) -> str:
    """Of the validation file, the tokens that the first `validation` targets need are for validation."""
    if part == "train":
        return "train"
    return "val" if document["start"] <= published["validation"] else "test"


# FineWeb's sample of 10 billion tokens as modded-nanogpt trains on it: published as tokens of GPT-2. Records
# there are chosen and judged by the first targets of the validation file, as protocol "paper" does; the rest
# of that file is for test. Source: Penedo et al., "The FineWeb datasets" (2024), arXiv 2406.17557.
FINEWEB = Corpus(
    "fineweb",
    columns=("start",),
    splits={"train": ("train",), "validation": ("val", "test")},
    split_of=_split_of_fineweb,
    paper={"train": ("train",), "val": ("val",), "test": ("val",)},
)
CORPORA = {corpus.task: corpus for corpus in (C4, OPENWEBTEXT, FINEWEB)}
