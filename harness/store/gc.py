"""Files of a store that can be removed without losing a result: leftovers of dead processes, unused files.

Records and files of live runs are never removed. Prepared data (`cache/`) stays: it is few files, and nothing
says which of them a later sweep needs. So do the copies of programs: they show what has made the results.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from htbench.harness.errors import UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Store, submissions
from htbench.harness.store.layout import code_folder, is_key, sweeps_folder
from htbench.harness.store.points import (
    POINTS,
    Point,
    ever_planned,
    filled,
    submitting,
    sweep_names,
    writes_anew,
)
from htbench.harness.system import atomic, slurm
from htbench.harness.system.environment import CODE

# A temporary file's name has its writer's pid, but not the machine: only its age counts.
ABANDONED_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class Item:
    """A file or folder that can be removed.

    Attributes:
        kind: `temporary`, `checkpoint`, `code` or `orphan`.
        path: where it is.
        size: in bytes, with all that is below it.
    """

    kind: str
    path: Path
    size: int


def garbage(store: Store, *, pruned: bool = False, orphans: bool = False) -> Iterator[Item]:
    """Yield everything that can be removed; the caller may remove each item at once.

    Args:
        store: the store.
        pruned: also checkpoints of pruned runs; another study then starts such a run at step 0.
        orphans: also folders of unfinished runs that no sweep wants.

    Raises:
        UsageError: orphans can't be found, as a sweep's plan is missing or damaged.
    """
    paths_by_kind = {
        "temporary": _find_temporaries(store.root),
        "checkpoint": _find_checkpoints(store, pruned),
        "code": _find_code(store),
        "orphan": _find_orphans(store, _list_planned_keys(store.root)) if orphans else (),
    }
    for kind, paths in paths_by_kind.items():
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                size = sum(file.lstat().st_size for file in _list_tree(path) if not file.is_dir())
                yield Item(kind, path, size)


def remove(store: Store, item: Item) -> bool:
    """Remove an item. A folder is renamed first, so that no process finds a part of it.

    Returns:
        False if another process has claimed the run meanwhile.
    """
    if item.kind == "orphan":
        store.reset_failure(item.path.name)
        if not isinstance(store.claim(item.path.name, ""), Attempt):
            return False
    with contextlib.suppress(FileNotFoundError):  # its writer may have removed it
        if item.path.is_symlink() or not item.path.is_dir():
            item.path.unlink()
        else:
            doomed = atomic.temporary_name(item.path)
            item.path.rename(doomed)
            shutil.rmtree(doomed)
    return True


def _list_tree(path: Path) -> list[Path]:
    """A path and all below it; what a link leads to is not."""
    return [path, *(() if path.is_symlink() else path.rglob("*"))]


def _find_temporaries(root: Path) -> Iterator[Path]:
    """Temporary files and folders, but none within one or within a snapshot of the code."""
    for place, folders, files in os.walk(root):
        for name in filter(atomic.is_temporary, sorted([*folders, *files])):
            with contextlib.suppress(FileNotFoundError):
                touched = max(path.lstat().st_mtime for path in _list_tree(Path(place, name)))
                if time.time() - touched > ABANDONED_SECONDS:
                    yield Path(place, name)
        kept = [name for name in sorted(folders) if not atomic.is_temporary(name)]
        folders[:] = [] if Path(place) == code_folder(root) else kept


def _find_checkpoints(store: Store, pruned: bool) -> Iterator[Path]:
    for key, record in store.records(store.keys()).items():
        path = store.files(key).checkpoint
        if path.exists() and (
            record.status is not Status.PRUNED or (pruned and store.state(key).status is not Status.RUNNING)
        ):
            yield path


def _find_code(store: Store) -> Iterator[Path]:
    """Snapshots but the newest, our own, and those that a job may still run from."""
    folder = code_folder(store.root)
    versions = sorted(path for path in folder.glob("[!.]*") if path.is_dir() and not path.is_symlink())
    if len(versions) < 2:
        return
    newest = max(versions, key=lambda path: path.stat().st_mtime)
    with submitting(store.root):  # a submission takes its snapshot before it notes the use
        needed = _list_needed_code(store)
        for path in versions:
            if path != newest and path.resolve() != CODE and needed is not None and path.name not in needed:
                yield path


def _list_needed_code(store: Store) -> set[str] | None:
    """The versions that submissions name whose points are not all finished, or whose jobs are in the queue.

    Returns:
        None if a list of submissions is damaged.
    """
    if submissions.is_damaged(store.root):
        return None
    submitted: dict[submissions.Submission, list[Point]] = {}
    for submission in submissions.read_all(store.root):
        ids = (("", slot) if not is_key(slot) else (slot, "") for slot in submission.points)
        points = (Point(submission.sweep, "", "", key, {}, slot) for key, slot in ids)  # no more is needed
        submitted[submission] = [filled(store.root, point) for point in points]
    records = store.records({point.key for points in submitted.values() for point in points if point.key})

    def finished(point: Point) -> bool:
        return point.key in records and records[point.key].ends(point.study)

    over = {submission for submission, points in submitted.items() if all(map(finished, points))}
    queued = {submission.word for submission in over}
    if over:
        with contextlib.suppress(slurm.SlurmError):  # without an answer all may have jobs there
            queued = {submissions.word_of(job.name) for job in slurm.queue().values()}
    return {each.code for each in submitted if each not in over or each.word in queued}


# --- orphans ---


def _list_planned_keys(root: Path) -> set[str]:
    """The keys of all points of all sweeps, also of those that they have dropped."""
    for folder in sorted(sweeps_folder(root).glob("*")):
        if folder.is_dir() and not (folder / POINTS).exists():
            raise UsageError(
                f"'{folder}' has no plan, so its runs can't be told from orphans; {writes_anew(folder)}."
            )
    return {point.key for name in sweep_names(root) for point in ever_planned(root, name)}


def _find_orphans(store: Store, planned: set[str]) -> Iterator[Path]:
    for key in store.keys():
        files = store.files(key)
        if key not in planned and not files.record.exists() and store.state(key).status is not Status.RUNNING:
            yield files.path
