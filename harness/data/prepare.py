"""Prepares a corpus: finds or fetches its raw files and makes shards of them.

Every file is finished on its own, and the stamp of the folder comes last. So a killed call loses the files at
work only, and the same call again makes the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.data import hub, raw, shards, work
from harness.data.cache import MANIFEST, digest
from harness.data.corpus import Corpus, RawFile
from harness.data.prepared import Prepared, Shard
from harness.data.published_tokenizer import PublishedTokenizer
from harness.data.tokenizer import TOKEN_BYTES
from harness.data.work import TOKENIZER, Work
from harness.data.workers import Report, make
from harness.errors import UsageError
from harness.system import atomic


def prepare(
    corpus: Corpus, cache: Path, raw_folder: Path, train_files: int, workers: int, report: Report
) -> Prepared:
    """Prepare the first `train_files` training files and all held-out text, as far as they are not.

    Of several processes one works and the others wait.

    Raises:
        UsageError: files are missing and can't be fetched, are not the published ones, or need more disk.
        RunFailedError: a worker was killed.
    """
    folder = corpus.folder(cache)
    if (prepared := _finished(corpus, folder, train_files)) is not None:
        return prepared  # read only, as a shared cache may be
    lock = folder.with_name(f".{folder.name}.lock")
    with atomic.locked(lock, lambda: report.say(f"another process prepares '{folder}'; waiting for it ...")):
        todo = Work.of(corpus, cache, raw_folder, train_files)
        raw.check(raw_folder)
        report.say(work.plan(todo))
        if todo.left or todo.lacks_tokenizer:
            work.check_disk(todo)
            work.check_missing(todo)
            folder.mkdir(parents=True, exist_ok=True)
            atomic.remove_temporaries(folder)  # we hold the lock: their writers are dead
            _place_tokenizer(todo)
            make(todo, workers, report)
        return _seal(todo)


def _finished(corpus: Corpus, folder: Path, train_files: int) -> Prepared | None:
    prepared = Prepared.read(folder)
    if prepared is None or prepared.train_files < train_files:
        return None
    return prepared if all(shard.is_there(folder) for shard in prepared.shards.values()) else None


def _place_tokenizer(todo: Work) -> None:
    """Copy the tokenizer into the folder, with the lengths of its tokens. What is there stays."""
    row, place = todo.corpus.published["tokenizer"], todo.folder / TOKENIZER
    if place.is_file() and (todo.folder / TOKEN_BYTES).is_file():
        return
    file = raw.find(todo.raw, TOKENIZER) or hub.fetch(
        row["repository"], row["revision"], row["file"], todo.raw, "model"
    )
    tokenizer = PublishedTokenizer.read(file, row)
    lengths = tokenizer.token_bytes()
    atomic.write_with(todo.folder / TOKEN_BYTES, lambda file: np.save(file, lengths))
    atomic.write_bytes(place, file.read_bytes())


def _seal(todo: Work) -> Prepared:
    """Write the stamp over all files that are prepared by now, and the manifest of their digests."""
    corpus, folder = todo.corpus, todo.folder
    rows = {one: shards.done(one, folder) for one in corpus.files(corpus.train_files)}
    numbers = range(corpus.train_files)
    train = [one for one in rows if one.part == "train"]
    train_files = next((n for n in numbers if rows[train[n]] is None), corpus.train_files)
    ready = [one for one in rows if one.part != "train" or one.number < train_files]
    _check_total(todo, {one: rows[one] or [] for one in ready})
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
    manifest |= {one["shard"]["name"] + kind: value for one in made for kind, value in one["sha256"].items()}
    atomic.write_json(folder / MANIFEST, manifest)
    prepared.write(folder)
    return prepared


def _check_total(todo: Work, rows: dict[RawFile, list[dict[str, Any]]]) -> None:
    """Raise UsageError if a part is complete and has another number of documents than the published one."""
    for part, published in todo.corpus.published["parts"].items():
        its = {one: made for one, made in rows.items() if one.part == part}
        documents = sum(shard["shard"]["documents"] for made in its.values() for shard in made)
        if len(its) == published["files"] and documents != published["documents"]:
            for one in its:
                shards.forget(one, todo.folder)
            raise UsageError(
                f"The {part} files of '{todo.corpus.task}' have {documents} documents instead of the "
                f"published {published['documents']}: they are of another copy; download them again."
            )
