"""Prepares a corpus: finds or fetches its raw files and makes shards of them, several files at a time.

Every file is finished on its own, and the stamp of the folder comes last. So a killed call loses the files at
work only, and the same call again makes the same bytes.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from harness.data import hub, raw
from harness.data.cache import MANIFEST, digest
from harness.data.corpus import Corpus, RawFile
from harness.data.prepared import Prepared, Shard
from harness.errors import RunFailedError, UsageError
from harness.system import atomic

TOKENIZER = "tokenizer.json"
_FETCHING = 4  # files that are fetched while as many as there are workers are tokenised
_POLL = 0.2  # seconds


class Report(Protocol):
    """What is told while a corpus is prepared."""

    def say(self, line: str) -> None:
        """A line for the user."""

    def begin(self, documents: int) -> None:
        """So many documents will be tokenised."""

    def progress(self, documents: int) -> None:
        """So many documents are tokenised by now."""


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
        from harness.data import shards

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
        work = Work.of(corpus, cache, raw_folder, train_files)
        raw.check(raw_folder)
        report.say(_plan(work))
        if work.left or work.lacks_tokenizer:
            _check_disk(work)
            _check_missing(work)
            folder.mkdir(parents=True, exist_ok=True)
            atomic.remove_temporaries(folder)  # we hold the lock: their writers are dead
            _place_tokenizer(work)
            _make(work, workers, report)
        return _seal(work)


def _finished(corpus: Corpus, folder: Path, train_files: int) -> Prepared | None:
    prepared = Prepared.read(folder)
    if prepared is None or prepared.train_files < train_files:
        return None
    return prepared if all(shard.is_there(folder) for shard in prepared.shards.values()) else None


def _plan(work: Work) -> str:
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


def _check_disk(work: Work) -> None:
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


def _check_missing(work: Work) -> None:
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
            f"Files of '{work.corpus.task}' are missing ({len(missing)}: {first}) and {why}: download them from "
            f"{' and '.join(sources)}, put them into '{work.raw}', and run this command again."
        )


def _place_tokenizer(work: Work) -> None:
    """Copy the tokenizer into the folder, with the lengths of its tokens. What is there stays."""
    import numpy as np

    from harness.data.published_tokenizer import PublishedTokenizer
    from harness.data.tokenizer import TOKEN_BYTES

    row, place = work.corpus.published["tokenizer"], work.folder / TOKENIZER
    if place.is_file() and (work.folder / TOKEN_BYTES).is_file():
        return
    file = raw.find(work.raw, TOKENIZER) or hub.fetch(
        row["repository"], row["revision"], row["file"], work.raw, "model"
    )
    tokenizer = PublishedTokenizer.read(file, row)
    lengths = tokenizer.token_bytes()
    atomic.write_with(work.folder / TOKEN_BYTES, lambda file: np.save(file, lengths))
    atomic.write_bytes(place, file.read_bytes())


# --- many files at a time ---


def _make(work: Work, workers: int, report: Report) -> None:
    """Fetch what is missing, and make the shards of every file that is left."""
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    report.begin(sum(map(work.documents, work.left)))
    pool = ProcessPoolExecutor(min(workers, len(work.left)), context, _enter, (counter,))
    fetchers = ProcessPoolExecutor(_FETCHING, context, _end_with_the_parent)
    threads = ThreadPoolExecutor(workers + _FETCHING)  # they only wait
    try:
        futures = {threads.submit(_one, work, one, pool, fetchers): one for one in work.left}
        with _watched(counter, report):
            _await(futures, report)
    except BaseException:
        for process in multiprocessing.active_children():  # what they are at would take minutes
            process.kill()
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        pool.shutdown(cancel_futures=True)
        fetchers.shutdown(cancel_futures=True)


def _one(work: Work, one: RawFile, pool: ProcessPoolExecutor, fetchers: ProcessPoolExecutor) -> None:
    path = raw.find(work.raw, one.name)
    if path is None:
        row = work.corpus.published
        path = fetchers.submit(hub.fetch, row["repository"], row["revision"], one.name, work.raw).result()
    pool.submit(_tokenise, work.corpus.task, one, path, work.folder).result()


def _await(futures: dict[Future[None], RawFile], report: Report) -> None:
    for number, future in enumerate(as_completed(futures), 1):
        try:
            future.result()
        except BrokenProcessPool:
            raise RunFailedError(
                "A worker was killed, maybe for lack of memory; the same command goes on, with --workers N "
                "as well."
            ) from None
        report.say(f"[{number}/{len(futures)}] {futures[future].name}")


@contextlib.contextmanager
def _watched(counter: Synchronized[int], report: Report) -> Iterator[None]:
    """Report progress while the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL):
            report.progress(counter.value)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        report.progress(counter.value)


# --- in a worker ---

_counter: Synchronized[int]


def _enter(counter: Synchronized[int]) -> None:
    """Prepare a process that tokenises: no network and one thread."""
    global _counter
    _counter = counter
    _end_with_the_parent()
    tqdm.set_lock(threading.RLock())  # its own is for many processes, and is left behind when we are killed
    # Read when these libraries are imported, which happens in `_tokenise`.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _end_with_the_parent() -> None:
    """Live no longer than the process that started us: it may be killed, and it alone answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()


def _die_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _tokenise(task: str, one: RawFile, path: Path, folder: Path) -> None:
    from harness.data.published_tokenizer import PublishedTokenizer
    from harness.data.shards import write_shards

    corpus: Corpus = importlib.import_module(f"harness.data.{task}").CORPUS
    tokenizer = PublishedTokenizer.read(folder / TOKENIZER, corpus.published["tokenizer"])
    write_shards(corpus, one, path, tokenizer, folder, _advance)


def _advance(documents: int) -> None:
    with _counter.get_lock():
        _counter.value += documents


# --- the end ---


def _seal(work: Work) -> Prepared:
    """Write the stamp over all files that are prepared by now, and the manifest of their digests."""
    from harness.data import shards
    from harness.data.published_tokenizer import PublishedTokenizer
    from harness.data.tokenizer import TOKEN_BYTES

    corpus, folder = work.corpus, work.folder
    rows = {one: shards.done(one, folder) for one in corpus.files(corpus.train_files)}
    numbers = range(corpus.train_files)
    train = [one for one in rows if one.part == "train"]
    train_files = next((n for n in numbers if rows[train[n]] is None), corpus.train_files)
    ready = [one for one in rows if one.part != "train" or one.number < train_files]
    _check_total(corpus, {one: rows[one] or [] for one in ready})
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


def _check_total(corpus: Corpus, rows: dict[RawFile, list[dict[str, Any]]]) -> None:
    """Raise UsageError if a part is complete and has another number of documents than the published one."""
    for part, published in corpus.published["parts"].items():
        its = [shards for one, shards in rows.items() if one.part == part]
        documents = sum(shard["shard"]["documents"] for shards in its for shard in shards)
        if len(its) == published["files"] and documents != published["documents"]:
            raise UsageError(
                f"The {part} files of '{corpus.task}' have {documents} documents instead of the published "
                f"{published['documents']}: they are of another copy; download them again."
            )


def _existing(place: Path) -> Path:
    """The folder, or the first above it that exists."""
    return next(one for one in (place.absolute(), *place.absolute().parents) if one.exists())


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
