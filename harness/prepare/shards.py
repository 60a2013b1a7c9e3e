"""From one raw file to its shards: read, divide, tokenise, write. Each step depends on that file alone."""

from __future__ import annotations

import hashlib
import os
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.data.corpus import Corpus, RawFile
from harness.data.prepared import OFFSETS, TOKENS, Shard
from harness.errors import UsageError
from harness.prepare.published_tokenizer import PublishedTokenizer
from harness.system import atomic

BATCH = 1000  # documents that are tokenised at once


def write_shards(
    corpus: Corpus,
    raw: RawFile,
    path: Path,
    tokenizer: PublishedTokenizer,
    folder: Path,
    advance: Callable[[int], None],
) -> None:
    """Write the shards of a raw file, then a stamp with their sizes and digests: `done` finds it.

    Args:
        corpus: whose file it is.
        raw: which file.
        path: where it lies.
        tokenizer: of the corpus.
        folder: of the prepared data.
        advance: is told the number of documents after every batch.

    Raises:
        UsageError: the file can't be read, or has another number of documents than the published one.
    """
    documents, published = 0, corpus.published
    with _Writers(folder, [f"{split}-{raw.number:05d}" for split in corpus.splits[raw.part]]) as writers:
        for batch in _documents(corpus, path):
            texts = batch[corpus.columns[0]]
            for number, tokens in enumerate(tokenizer.encode(texts)):
                document = {column: batch[column][number] for column in corpus.columns}
                split = corpus.split_of(published, raw.part, document)
                writers.of[f"{split}-{raw.number:05d}"].append([*tokens, tokenizer.end])
            documents += len(texts)
            advance(len(texts))
        _check(corpus, raw, path, documents)
        rows = writers.finish()
    atomic.write_json(_stamp(folder, raw), rows)


def done(raw: RawFile, folder: Path) -> list[dict[str, Any]] | None:
    """The rows of a raw file's stamp, a shard with its digests each; None if it is to be made."""
    rows = atomic.read_json(_stamp(folder, raw))
    if not isinstance(rows, list) or not all(Shard(**row["shard"]).is_there(folder) for row in rows):
        return None
    return rows


def forget(raw: RawFile, folder: Path) -> None:
    """Let the raw file be read again."""
    _stamp(folder, raw).unlink(missing_ok=True)


def _stamp(folder: Path, raw: RawFile) -> Path:
    return folder / f"{raw.stem}.json"


def _documents(corpus: Corpus, path: Path) -> Iterator[Mapping[str, list[str]]]:
    """The wanted columns of a raw file, in batches.

    Streaming a local file needs no second copy on the disk. Other columns are left out, since copies differ
    in their types.
    """
    import datasets

    form, wanted = corpus.published["format"], {"data_files": [str(path)], "split": "train"}
    try:
        # The library writes a lock file; the home folder may be read-only.
        with tempfile.TemporaryDirectory(prefix="htbench-") as scratch:
            rows = datasets.load_dataset(form, **wanted, streaming=True, cache_dir=scratch)
            yield from rows.select_columns(list(corpus.columns)).iter(batch_size=BATCH)
    except Exception as error:  # of gzip, json, pyarrow and datasets
        said = str(error).strip().splitlines() or [""]
        raise UsageError(
            f"'{path}' can't be read as {form} ({type(error).__name__}: {said[0]}); download it again."
        ) from None


def _check(corpus: Corpus, raw: RawFile, path: Path, documents: int) -> None:
    part = corpus.published["parts"][raw.part]
    least, more = divmod(part["documents"], part["files"])
    if documents not in (least, least + bool(more)):
        raise UsageError(
            f"'{path}' has {documents} documents, the published file has {least + bool(more)}: it is another "
            f"or a partial copy; download it again."
        )


class _Writers:
    """The shards of one raw file while they are written. What is not finished leaves no files."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.of = {name: _Writer(folder, name) for name in names}

    def __enter__(self) -> _Writers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self.of.values():
            writer.discard()

    def finish(self) -> list[dict[str, Any]]:
        return [writer.finish() for writer in self.of.values()]


class _Writer:
    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / (name + TOKENS)
        self.name, self.offsets, self.digest = name, array("q", [0]), hashlib.sha256()
        self.temporary = atomic.temporary_name(self.path)
        self.file = open(self.temporary, "wb")

    def append(self, tokens: list[int]) -> None:
        data = array("H", tokens).tobytes()
        self.file.write(data)
        self.digest.update(data)
        self.offsets.append(self.offsets[-1] + len(tokens))

    def finish(self) -> dict[str, Any]:
        self.file.flush()
        os.fsync(self.file.fileno())
        os.replace(self.temporary, self.path)
        offsets = self.offsets.tobytes()
        atomic.write_bytes(self.path.with_name(self.name + OFFSETS), offsets)  # also makes the rename durable
        shard = Shard(self.name, len(self.offsets) - 1, self.offsets[-1])
        digests = {TOKENS: self.digest.hexdigest(), OFFSETS: hashlib.sha256(offsets).hexdigest()}
        return {"shard": vars(shard), "sha256": digests}

    def discard(self) -> None:
        self.file.close()
        self.temporary.unlink(missing_ok=True)
