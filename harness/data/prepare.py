"""Prepares a published data set: fetches the raw files that lack and makes shards of them, several at a time.

Every file is finished on its own, and the stamp of the folder comes last. So a killed call loses the files at
work only, and the same call again makes the same bytes.
"""

from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

from htbench.harness.data import raw
from htbench.harness.data.copies import RawFile
from htbench.harness.data.corpus import CORPORA
from htbench.harness.data.pictures import SETS
from htbench.harness.data.prepare_images import PictureSource
from htbench.harness.data.prepare_text import CorpusSource
from htbench.harness.data.stamps import ImageFiles, Prepared
from htbench.harness.show.progress import Progress
from htbench.harness.system import atomic

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


def make(
    source: Source, files: Sequence[RawFile], raw_folder: Path, folder: Path, workers: int, progress: Progress
) -> None:
    """Make the shards of raw files, several at a time; what is missing of them is fetched.

    Threads do: tokenizers, Pillow and pyarrow work without the interpreter's lock, and no thread outlives us.
    """
    progress.to(0, len(files))
    work = partial(make_one, source, raw_folder=raw_folder, folder=folder)
    with ThreadPool(min(workers, len(files))) as pool:
        for number, name in enumerate(pool.imap_unordered(work, files), 1):
            progress.advance()
            progress.note(f"[{number}/{len(files)}] {name}")


def make_one(source: Source, file: RawFile, raw_folder: Path, folder: Path) -> str:
    """Make the shards of one raw file, which is fetched if it is missing; returns its name."""
    row = source.published
    source.write(file, raw.fetch(row["repository"], row["revision"], file.name, raw_folder), folder)
    return file.name
