"""Prepares a published data set: finds or fetches its raw files and makes shards of them.

Every file is finished on its own, and the stamp of the folder comes last. So a killed call loses the files at
work only, and the same call again makes the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from harness.prepare import raw, work
from harness.prepare.work import Made, Source, Work
from harness.prepare.workers import Report, make
from harness.system import atomic


def prepare(
    source: Source[Made], cache: Path, raw_folder: Path, train_files: int, workers: int, report: Report
) -> Made:
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
    with atomic.locked(lock, lambda: report.say(f"another process prepares '{folder}'; waiting for it ...")):
        todo = Work.of(source, cache, raw_folder, train_files)
        raw.check(raw_folder)
        report.say(work.plan(todo))
        if todo.left or todo.lacks_tokenizer:
            work.check_disk(todo)
            work.check_missing(todo)
            folder.mkdir(parents=True, exist_ok=True)
            atomic.remove_temporaries(folder)  # we hold the lock: their writers are dead
            source.begin(folder, raw_folder)
            make(todo, workers, report)
        return source.seal(folder)
