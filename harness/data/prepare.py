"""Prepares a published data set: fetches the raw files that lack and makes shards of them, several at a time.

Every file is finished on its own, and the stamp of the folder comes last. So a killed call loses the files at
work only, and the same call again makes the same bytes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from htbench.harness.data import raw
from htbench.harness.data.cache import TOKENIZER
from htbench.harness.data.copies import RawFile
from htbench.harness.data.corpus import CORPORA
from htbench.harness.data.pictures import SETS
from htbench.harness.data.prepare_images import PictureSource
from htbench.harness.data.prepare_text import CorpusSource
from htbench.harness.data.stamps import ImageFiles, Prepared
from htbench.harness.errors import RunFailedError, UsageError
from htbench.harness.show.progress import Progress
from htbench.harness.system import atomic
from htbench.harness.system.environment import our_code_only

Source: TypeAlias = CorpusSource | PictureSource
_FETCHING = 4  # files that are fetched while as many as there are workers are at work
_POLL = 0.2  # seconds


def source_of(task: str, raw_folder: Path) -> Source:
    """How `task` is prepared from the raw files in a folder."""
    if task in CORPORA:
        return CorpusSource(**vars(CORPORA[task]))
    return PictureSource.at(SETS[task], raw_folder)


def prepare(
    source: Source, cache: Path, raw_folder: Path, train_files: int, workers: int, progress: Progress
) -> Prepared | ImageFiles:
    """Prepare the first `train_files` training files and all held-out ones, as far as they are not.

    Of several processes one works and the others wait.

    Raises:
        UsageError: files are missing and can't be fetched, are not the published ones, or need more disk.
        RunFailedError: a worker was killed.
    """
    folder = source.folder(cache)
    if (made := source.finished(folder, train_files)) is not None:
        return made  # read only, as a shared cache may be
    lock = folder.with_name(f".{folder.name}.lock")
    with atomic.locked(
        lock, lambda: progress.note(f"another process prepares '{folder}'; waiting for it ...")
    ):
        work = Work.of(source, folder, raw_folder, train_files)
        raw.check(raw_folder)
        progress.note(work.plan())
        if work.left or work.lacks_tokenizer:
            work.check_disk()
            work.check_missing()
            folder.mkdir(parents=True, exist_ok=True)
            atomic.remove_temporaries(folder)  # we hold the lock: their writers are dead
            source.begin(folder, raw_folder)
            make(work, workers, progress)
        return source.seal(folder)


# --- what is left to do, what it takes, and whether it can be done here ---


@dataclass(frozen=True)
class Work:
    """What is left to do for some number of training files.

    Attributes:
        source: of what.
        folder: of the prepared data.
        raw: folder of the raw files.
        wanted: all raw files that are needed.
        left: those of them without shards.
        missing: those of these that are not here.
    """

    source: Source
    folder: Path
    raw: Path
    wanted: list[RawFile]
    left: list[RawFile]
    missing: list[RawFile]

    @classmethod
    def of(cls, source: Source, folder: Path, raw_folder: Path, train_files: int) -> Work:
        """The work for the first `train_files` training files and all others."""
        wanted = list(source.files(train_files))
        left = [file for file in wanted if source.done(file, folder) is None]
        missing = [file for file in left if raw.find(raw_folder, file.name) is None]
        return cls(source, folder, raw_folder, wanted, left, missing)

    @property
    def download(self) -> int:
        """Bytes to fetch, about."""
        parts = self.source.published["parts"]
        return sum(int(parts[file.part]["file_bytes"]) for file in self.missing)

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

    def plan(self) -> str:
        """What will be done, and what it takes."""
        task, files = self.source.task, self.source.train_files
        train = sum(file.part == "train" for file in self.wanted)
        head = f"{task}: {train} of {files} training files, {len(self.wanted) - train} held-out files"
        if not self.left:
            return f"{head}; all are prepared in '{self.folder}'"
        free = shutil.disk_usage(_existing(self.folder)).free
        return (
            f"{head}; {len(self.left)} to prepare, {len(self.missing)} to download first: "
            f"{_gb(self.download)} to download into '{self.raw}', {_gb(self.size)} to write to "
            f"'{self.folder}', {_gb(free)} free there"
        )

    def check_disk(self) -> None:
        """Raise UsageError if the disks have too little space."""
        places = {self.raw: self.download, self.folder: self.size}
        needed: dict[int, int] = {}
        for place, size in places.items():
            device = _existing(place).stat().st_dev
            needed[device] = needed.get(device, 0) + size
        for place in places:
            there = _existing(place)
            total, free = needed[there.stat().st_dev], shutil.disk_usage(there).free
            if total > free:
                raise UsageError(
                    f"'{place}' has {_gb(free)} free, and {_gb(total)} are needed there (raw files to "
                    f"download {_gb(self.download)}, prepared data {_gb(self.size)}); make room, or set "
                    f"HTBENCH_DATA or --root to another disk."
                )

    def check_missing(self) -> None:
        """Raise UsageError if files have to be fetched and the network is not there."""
        missing, sources = [f"'{file.name}'" for file in self.missing], []
        row = self.source.published
        if missing:
            sources.append(f"{raw.endpoint()}/datasets/{row['repository']}/tree/{row['revision']}")
        if self.lacks_tokenizer:
            tokenizer = row["tokenizer"]
            missing.append(f"'{TOKENIZER}' of {tokenizer['repository']}")
            sources.append(f"{raw.endpoint()}/{tokenizer['repository']}/tree/{tokenizer['revision']}")
        if missing and (why := raw.obstacle()):
            first = ", ".join(missing[:2] + missing[2:][-1:])
            raise UsageError(
                f"Files of '{self.source.task}' are missing ({len(missing)}: {first}) and {why}: "
                f"download them from {' and '.join(sources)}, put them into '{self.raw}', and run this "
                "command again."
            )


def _existing(place: Path) -> Path:
    """The folder, or the first above it that exists."""
    return next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


# --- the processes ---


@our_code_only()
def make(work: Work, workers: int, progress: Progress) -> None:
    """Fetch what is missing, and make the shards of every file that is left."""
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    progress.to(0, sum(map(work.source.count, work.left)))
    pool = ProcessPoolExecutor(min(workers, len(work.left)), context, _enter, (work.source, counter))
    fetchers = ProcessPoolExecutor(_FETCHING, context, _end_with_the_parent)
    threads = ThreadPoolExecutor(workers + _FETCHING)  # they only wait

    def finish(file: RawFile) -> None:
        path = raw.find(work.raw, file.name)
        if path is None:
            row = work.source.published
            path = fetchers.submit(
                raw.fetch, row["repository"], row["revision"], file.name, work.raw
            ).result()
        pool.submit(_write, file, path, work.folder).result()

    try:
        futures = {threads.submit(finish, file): file for file in work.left}
        with _watched(counter, progress):
            for number, future in enumerate(as_completed(futures), 1):
                future.result()
                progress.note(f"[{number}/{len(futures)}] {futures[future].name}")
    except BaseException as error:
        for process in multiprocessing.active_children():  # what they are at would take minutes
            process.kill()
        if isinstance(error, BrokenProcessPool):
            raise RunFailedError(
                "A worker was killed, maybe for lack of memory; the same command goes on, with --workers N "
                "as well."
            ) from None
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        pool.shutdown(cancel_futures=True)
        fetchers.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _watched(counter: Synchronized[int], progress: Progress) -> Iterator[None]:
    """Show progress while the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL):
            progress.to(counter.value)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        progress.to(counter.value)


# --- in a worker ---

_source: Source
_counter: Synchronized[int]


def _enter(source: Source, counter: Synchronized[int]) -> None:
    """Prepare a process that makes shards: no network and one thread."""
    global _source, _counter
    _source, _counter = source, counter
    _end_with_the_parent()
    tqdm.set_lock(threading.RLock())  # its own is for many processes, and is left behind when we are killed
    # Read when these libraries are imported, which happens in `_write`.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _end_with_the_parent() -> None:
    """Live no longer than the process that started us: it may be killed, and it alone answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def die_with_it() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=die_with_it, daemon=True).start()


def _write(file: RawFile, path: Path, folder: Path) -> None:
    _source.write(file, path, folder, _advance)


def _advance(documents: int) -> None:
    with _counter.get_lock():
        _counter.value += documents
