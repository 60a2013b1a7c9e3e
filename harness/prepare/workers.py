"""The processes that fetch raw files and make shards of them, several files at a time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from harness.data.corpus import RawFile
from harness.errors import RunFailedError
from harness.prepare import hub
from harness.prepare.work import Source, Work

_FETCHING = 4  # files that are fetched while as many as there are workers are at work
_POLL = 0.2  # seconds


class Report(Protocol):
    """What is told while a data set is prepared."""

    def say(self, line: str) -> None:
        """A line for the user."""

    def begin(self, documents: int) -> None:
        """So many documents will be tokenised."""

    def progress(self, documents: int) -> None:
        """So many documents are tokenised by now."""


def make(work: Work, workers: int, report: Report) -> None:
    """Fetch what is missing, and make the shards of every file that is left."""
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    report.begin(sum(map(work.source.count, work.left)))
    pool = ProcessPoolExecutor(min(workers, len(work.left)), context, _enter, (work.source, counter))
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
    path = work.source.find(work.raw, one)
    if path is None:
        row = work.source.published
        path = fetchers.submit(hub.fetch, row["repository"], row["revision"], one.name, work.raw).result()
    pool.submit(_write, one, path, work.folder).result()


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

_source: Source[object]
_counter: Synchronized[int]


def _enter(source: Source[object], counter: Synchronized[int]) -> None:
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
    threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()


def _die_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _write(one: RawFile, path: Path, folder: Path) -> None:
    _source.write(one, path, folder, _advance)


def _advance(documents: int) -> None:
    with _counter.get_lock():
        _counter.value += documents
