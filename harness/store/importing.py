"""Imports runs and sweeps of another store into this one; the other store is only read.

A key is a hash of all that can change the numbers of a run: two runs with one key are the same run. So the
folders that are missing here are copied, each under a temporary name until it is complete, and those that are
here stay. Where both have ended with other figures, people are told. After a crash the same import is run
again: it leaves out what is here already.
"""

import contextlib
import functools
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from htbench.harness.config.key import stored_keys
from htbench.harness.config.names import settings_of
from htbench.harness.config.settings import as_stored
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import Store, gc, layout
from htbench.harness.store.integrity import CHANGED
from htbench.harness.store.layout import CHECKPOINT, METRICS, RECORD, RUNS, SPECTRA, SWEEPS
from htbench.harness.store.points import POINTS, SLOTS, SPEC, read_points, sweep_folder, sweep_names
from htbench.harness.store.record import RunRecord
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.harness.system.links import LinkError, leads_away

# In this order, while somebody may be at work there: all is complete once there is a record, and of the curve
# rows beyond the checkpoint are cut on resuming. Attempts stay: their processes mean nothing here.
_AFTER = (layout.TEST_ITEMS, layout.WEIGHTS, layout.LOG, layout.CONFIG)
_FILES = (RECORD, CHECKPOINT, METRICS, SPECTRA, *_AFTER)


@dataclass
class ImportSummary:
    """What the import did with the other store's runs and sweeps.

    Attributes:
        imported: number of runs by status: completed, diverged, pruned, or `unfinished` with a checkpoint.
        already_here: number of runs that are here already.
        sweeps: names of the sweeps that were taken.
        remarks: why runs and sweeps were not taken, and in what results contradict each other.
    """

    imported: Counter[str] = field(default_factory=Counter)
    already_here: int = 0
    sweeps: list[str] = field(default_factory=list)
    remarks: list[Note] = field(default_factory=list)


def import_store(store: Store, other: Path, *, dry_run: bool = False) -> ImportSummary:
    """Import the runs and the sweeps of `other` that are missing here, in the order of keys and names.

    A run that has ended there also takes the place of one that has not ended here.

    Args:
        store: the store that grows.
        other: the root of another.
        dry_run: only say what would be done.

    Raises:
        UsageError: `other` is no store, or is this one.
    """
    if not any((other / name).is_dir() for name in (RUNS, SWEEPS)):
        raise UsageError(f"'{other}' is no store: it has neither runs/ nor sweeps/, nor compact records.")
    if other.resolve() == store.root.resolve():
        raise UsageError(f"'{other}' is this store itself; name another one.")
    summary, source = ImportSummary(), Store(other, read_only=True)
    for key in source.keys():
        files = source.files(key)
        if files.record.exists() or files.checkpoint.exists():
            result = _import_run(store, source, key, dry_run)
            if isinstance(result, Note):
                summary.remarks.append(result)
            else:
                summary.already_here += result is None
                summary.imported.update(filter(None, [result]))
    if not dry_run:
        store.records(store.keys())  # notes in the index what is new
    for name in sweep_names(other):
        _import_sweep(store.root, other, name, summary, dry_run)
    return summary


# --- runs ---


def _import_run(store: Store, other: Store, key: str, dry_run: bool) -> str | Note | None:
    """The status to count in `ImportSummary.imported`; a note: why nothing is taken; None: it is here."""
    record_there, record_here = _read_sound_record(other, key), store.record(key)
    if isinstance(record_there, str):
        return Note("merge_refused", name=key, why=record_there)
    has_ended = record_there is not None and record_there.ends()
    if record_here is not None and record_here.ends():
        contradictions = list_contradictions(record_here, record_there) if record_there and has_ended else []
        return Note("merge_conflict", key=key, differing=contradictions) if contradictions else None
    if store.run_folder(key).exists() and not has_ended:
        return None
    if (state_here := store.state(key)).status is Status.RUNNING:
        return Note("merge_at_work_here", key=key, owner=str(state_here.owner or "somebody"))
    if record_there is None and other.state(key).status is Status.RUNNING:
        return Note("merge_at_work_there", key=key)
    if dry_run or _copy(store, key, other.run_folder(key)):
        return "unfinished" if record_there is None else record_there.status
    return Note("merge_claimed", key=key)


def _read_sound_record(store: Store, key: str) -> RunRecord | str | None:
    """The record, if there is one; a word: why it, or the config alone, is not what the key stands for."""
    files = store.files(key)
    record = RunRecord.from_json(atomic.read_json(files.record))
    if record is None and files.record.exists():
        return "its record.json is damaged"
    try:
        config = record.config if record is not None else files.read_config()
        keys = stored_keys(as_stored(settings_of(config)))
    except (UsageError, ValueError) as error:
        return f"this code can't read its config: {error}"
    if key not in keys or (record is not None and record.key != key):
        return "its config is that of another key"
    return str(CHANGED) if record is not None and record.digest else record


def list_contradictions(record_here: RunRecord, record_there: RunRecord) -> list[Note]:
    """All in which two records of a run contradict each other, but for what depends on the machine."""
    facts_here, facts_there = (
        {"status": record.status, "steps": record.steps, **record.metrics, "digest": record.digest}
        for record in (record_here, record_there)
    )
    return [
        Note("merge_differing", name=name, here=facts_here.get(name), there=facts_there.get(name))
        for name in facts_here | facts_there
        if facts_here.get(name) != facts_there.get(name)
    ]


def _copy(store: Store, key: str, source: Path) -> bool:
    """Copy the folder of a run; False if another process is at work on it here meanwhile."""
    target = store.run_folder(key)
    layout.begin(store.root)
    make_folder(target.parent)
    if target.is_symlink():
        raise LinkError(target)
    with _staged(source, target, _FILES) as staged:
        if target.exists() and not gc.remove(store, gc.Item("orphan", target, 0)):
            return False
        try:
            os.rename(staged, target)
        except OSError:  # a folder with files is there again
            return False
    atomic.sync_folder(target.parent)
    return True


# --- files ---


@contextmanager
def _staged(source: Path, target: Path, names: Sequence[str]) -> Iterator[Path]:
    """A temporary folder beside `target` with durable copies of the files of `names` that exist."""
    folder = atomic.temporary_name(target)
    folder.mkdir()
    try:
        for name in names:  # with their times; who may read them is up to the folder that they go to
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError), (source / name).open("rb") as file:
                atomic.write_with(folder / name, functools.partial(shutil.copyfileobj, file))
                modified = os.fstat(file.fileno()).st_mtime_ns
                os.utime(folder / name, ns=(modified, modified))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- sweeps ---


def _import_sweep(root: Path, other: Path, name: str, summary: ImportSummary, dry_run: bool) -> None:
    """Copy a sweep that this store lacks, with the slots of its searches but without its submissions."""
    target = sweep_folder(root, name)
    try:
        source = sweep_folder(other, name)
        read_points(other, name)
    except UsageError as error:
        summary.remarks.append(Note("merge_refused", name=name, why=str(error)))
        return
    if target.exists():
        if _read_plan_files(source) != _read_plan_files(target):
            summary.remarks.append(Note("merge_other_points", sweep=name))
        return
    if not dry_run:
        make_folder(target.parent)
        with _staged(source, target, list_plan_files(source)) as staged:
            os.rename(staged, target)
    summary.sweeps.append(name)


def list_plan_files(folder: Path) -> list[str]:
    """The files of a sweep that another store needs, below its folder: plan and filled slots."""
    slots = sorted(folder.glob(f"{SLOTS}/*/[!.]*.json"))
    filled = (path for path in slots if not leads_away(str(path.parent), levels=2))
    paths = [folder / SPEC, folder / POINTS, *filled]
    return [str(path.relative_to(folder)) for path in paths if path.is_file()]


def _read_plan_files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in list_plan_files(folder)}
