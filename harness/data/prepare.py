"""Prepares a published data set: fetches the raw files that lack and makes shards of them, several at a time.

Every file is finished on its own, and the stamp of the folder comes last. So a killed call loses the files at
work only, and the same call again makes the same bytes.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path

from tqdm import tqdm

from htbench.harness.data import raw
from htbench.harness.data.copies import RawFile
from htbench.harness.data.corpus import CORPORA
from htbench.harness.data.pictures import SETS
from htbench.harness.data.prepare_images import PictureSource
from htbench.harness.data.prepare_text import CorpusSource
from htbench.harness.data.stamps import ImageFiles, Prepared
from htbench.harness.errors import RunFailedError
from htbench.harness.show.progress import Progress
from htbench.harness.system import atomic
from htbench.harness.system.environment import our_code_only

Source = CorpusSource | PictureSource


def source_of(task: str) -> Source:
    """How `task` is prepared."""
    return CorpusSource(**vars(CORPORA[task])) if task in CORPORA else PictureSource(**vars(SETS[task]))


def prepare(
    source: Source, cache: Path, raw_folder: Path, train_files: int, workers: int, progress: Progress
) -> Prepared | ImageFiles:
    """Prepare the first `train_files` training files and all held-out ones, as far as they are not.

    Of several processes one works and the others wait.

    Raises:
        UsageError: files are missing and can't be fetched, or are not the published ones.
        RunFailedError: a worker was killed.
    """
    folder = source.folder(cache)
    if (made := source.finished(folder, train_files)) is not None:
        return made  # read only, as a shared cache may be
    lock = folder.with_name(f".{folder.name}.lock")
    with atomic.locked(
        lock, lambda: progress.note(f"another process prepares '{folder}'; waiting for it ...")
    ):
        files = list(source.files(train_files))
        left = [file for file in files if source.done(file, folder) is None]
        folder.mkdir(parents=True, exist_ok=True)
        missing = [file for file in left if raw.find(raw_folder, file.name) is None]
        size = sum(int(source.published["parts"][file.part]["file_bytes"]) for file in missing) / 1e9
        progress.note(
            f"{source.task}: {len(files)} files, {len(left)} to prepare in '{folder}', {len(missing)} to "
            f"download into '{raw_folder}' ({size:.1f} GB)"
        )
        atomic.remove_temporaries(folder)  # we hold the lock: their writers are dead
        if isinstance(source, CorpusSource):
            source.copy_tokenizer(folder, raw_folder)
        if left:
            make(source, left, raw_folder, folder, workers, progress)
        return source.seal(folder)


@our_code_only()
def make(
    source: Source, files: Sequence[RawFile], raw_folder: Path, folder: Path, workers: int, progress: Progress
) -> None:
    """Make the shards of raw files, in several processes; what is missing of them is fetched."""
    progress.to(0, len(files))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(files)), context, _enter)
    try:
        futures = {pool.submit(make_one, source, file, raw_folder, folder): file for file in files}
        for number, future in enumerate(as_completed(futures), 1):
            future.result()
            progress.advance()
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
        pool.shutdown(cancel_futures=True)


def make_one(source: Source, file: RawFile, raw_folder: Path, folder: Path) -> None:
    """Make the shards of one raw file, which is fetched if it is missing."""
    row = source.published
    source.write(file, raw.fetch(row["repository"], row["revision"], file.name, raw_folder), folder)


def _enter() -> None:
    """Let a worker live no longer than the process that started it, which alone answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tqdm.set_lock(threading.RLock())  # its own is for many processes, and is left behind when we are killed
    # Read when these libraries are imported, which happens in `make_one`.
    os.environ |= {"HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    parent = multiprocessing.parent_process()
    assert parent is not None

    def die_with_it() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=die_with_it, daemon=True).start()
