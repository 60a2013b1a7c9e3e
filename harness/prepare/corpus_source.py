"""How a corpus is prepared: what its raw files are, and how tokens, tokenizer and stamp are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.cache import MANIFEST, digest
from harness.data.corpus import Corpus, RawFile
from harness.data.prepared import Prepared, Shard
from harness.data.tokenizer import TOKEN_BYTES
from harness.errors import UsageError
from harness.prepare import hub, raw, shards
from harness.prepare.published_tokenizer import PublishedTokenizer
from harness.prepare.work import TOKENIZER
from harness.system import atomic


@dataclass(frozen=True)
class CorpusSource:
    """A corpus for `prepare`: see `work.Source`."""

    corpus: Corpus

    @property
    def published(self) -> dict[str, Any]:
        """The row of the published copy."""
        return self.corpus.published

    @property
    def task(self) -> str:
        """The name of the corpus."""
        return self.corpus.task

    def folder(self, cache: Path) -> Path:
        """Where the prepared data lie."""
        return self.corpus.folder(cache)

    # --- raw files ---

    @property
    def train_files(self) -> int:
        """How many training files the published copy has."""
        return self.corpus.train_files

    def files(self, train_files: int) -> list[RawFile]:
        """The first `train_files` training files, then all files of other parts."""
        return list(self.corpus.files(train_files))

    def find(self, folder: Path, one: RawFile) -> Path | None:
        """A raw file; None if it is not there."""
        return raw.find(folder, one.name)

    def count(self, one: RawFile) -> int:
        """Documents of a raw file, on average."""
        return int(self._part(one)["documents"] // self._part(one)["files"])

    def size(self, one: RawFile) -> int:
        """Bytes to prepare, about: two for a token, eight for a document."""
        return int(2 * self._part(one)["file_tokens"] + 8 * self.count(one))

    def _part(self, one: RawFile) -> dict[str, Any]:
        part: dict[str, Any] = self.published["parts"][one.part]
        return part

    # --- shards ---

    def done(self, one: RawFile, folder: Path) -> list[dict[str, Any]] | None:
        """The rows of a raw file's stamp, a shard each; None if it is to be made."""
        return shards.done(one, folder)

    def write(self, one: RawFile, path: Path, folder: Path, advance: Callable[[int], None]) -> None:
        """Make the shards of a raw file."""
        tokenizer = PublishedTokenizer.read(folder / TOKENIZER, self.published["tokenizer"])
        shards.write_shards(self.corpus, one, path, tokenizer, folder, advance)

    # --- the folder ---

    def finished(self, folder: Path, train_files: int) -> Prepared | None:
        """What the stamp says, if that is enough and all there."""
        prepared = Prepared.read(folder)
        if prepared is None or prepared.train_files < train_files:
            return None
        return prepared if all(shard.is_there(folder) for shard in prepared.shards.values()) else None

    def begin(self, folder: Path, raw_folder: Path) -> None:
        """Copy the tokenizer into the folder, with the lengths of its tokens. What is there stays."""
        row, place = self.published["tokenizer"], folder / TOKENIZER
        if place.is_file() and (folder / TOKEN_BYTES).is_file():
            return
        file = raw.find(raw_folder, TOKENIZER) or hub.fetch(
            row["repository"], row["revision"], row["file"], raw_folder, "model"
        )
        tokenizer = PublishedTokenizer.read(file, row)
        lengths = tokenizer.token_bytes()
        atomic.write_with(folder / TOKEN_BYTES, lambda file: np.save(file, lengths))
        atomic.write_bytes(place, file.read_bytes())

    def seal(self, folder: Path) -> Prepared:
        """Write the stamp over all files that are prepared by now, and the manifest of their digests."""
        corpus = self.corpus
        rows = {one: shards.done(one, folder) for one in corpus.files(corpus.train_files)}
        numbers = range(corpus.train_files)
        train = [one for one in rows if one.part == "train"]
        train_files = next((n for n in numbers if rows[train[n]] is None), corpus.train_files)
        ready = [one for one in rows if one.part != "train" or one.number < train_files]
        _check_total(corpus, folder, {one: rows[one] or [] for one in ready})
        tokenizer = PublishedTokenizer.read(folder / TOKENIZER, corpus.published["tokenizer"])
        row = corpus.published
        made = [shard for one in ready for shard in rows[one] or []]
        prepared = Prepared(
            task=corpus.task,
            source=f"{row['repository']} at {row['revision']}",
            train_files=train_files,
            vocabulary=tokenizer.vocabulary,
            end=tokenizer.end,
            pad=tokenizer.pad,
            shards={one["shard"]["name"]: Shard(**one["shard"]) for one in made},
        )
        manifest = {name: digest(folder / name) for name in (TOKENIZER, TOKEN_BYTES)}
        manifest |= {
            one["shard"]["name"] + kind: value for one in made for kind, value in one["sha256"].items()
        }
        atomic.write_json(folder / MANIFEST, manifest)
        prepared.write(folder)
        return prepared


def _check_total(corpus: Corpus, folder: Path, rows: dict[RawFile, list[dict[str, Any]]]) -> None:
    """Raise UsageError if a part is complete and has another number of documents than the published one."""
    for part, published in corpus.published["parts"].items():
        its = {one: made for one, made in rows.items() if one.part == part}
        documents = sum(shard["shard"]["documents"] for made in its.values() for shard in made)
        if len(its) == published["files"] and documents != published["documents"]:
            for one in its:
                shards.forget(one, folder)
            raise UsageError(
                f"The {part} files of '{corpus.task}' have {documents} documents instead of the "
                f"published {published['documents']}: they are of another copy; download them again."
            )
