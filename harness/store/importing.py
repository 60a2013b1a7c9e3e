"""Imports runs and sweeps of another store into this one; the other store is only read.

A key is a hash of all that can change the numbers of a run: two runs with one key are the same run. So the
folders that are missing here are copied, each under a temporary name until it is complete, and those that are
here stay. Where both have ended with other figures, people are told. After a crash the same import is run
again: it leaves out what is here already.
"""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from htbench.harness.config.key import stored_keys
from htbench.harness.config.names import settings_of
from htbench.harness.config.settings import as_stored
from htbench.harness.errors import UsageError
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


@dataclass(frozen=True)
class Difference:
    """A value in which two records of one run contradict each other.

    Attributes:
        name: `status`, `steps`, a metric, or `digest` if one of the records was changed since it was written.
        here: the value of ours.
        there: of theirs.
    """

    name: str
    here: Any
    there: Any


@dataclass
class Merged:
    """What the import did with the other store's runs and sweeps.

    Attributes:
        taken: number of runs by status: completed, diverged, pruned, or `unfinished` with a checkpoint.
        here: number of runs that are here already.
        conflicts: run -> in what our and their results differ; both have ended. Ours stays.
        left: run -> why it was left out; a later import may take it.
        refused: run or sweep -> what is wrong with it there.
        sweeps: names of the sweeps that were taken.
        differing: names of sweeps that are here with other points. Ours stay.
    """

    taken: Counter[str] = field(default_factory=Counter)
    here: int = 0
    conflicts: dict[str, list[Difference]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    sweeps: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


class _DamagedError(Exception):
    """A run of the other store can't be trusted."""


def merge(store: Store, other: Path, *, dry_run: bool = False) -> Merged:
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
    done, theirs = Merged(), Store(other, read_only=True)
    for key in theirs.keys():
        files = theirs.files(key)
        if not (files.record.exists() or files.checkpoint.exists()):
            continue  # it has neither a result nor a checkpoint
        try:
            _merge_run(store, theirs, key, done, dry_run)
        except _DamagedError as error:
            done.refused[key] = str(error)
    if not dry_run:
        store.records(store.keys())  # notes in the index what is new
    for name in sweep_names(other):
        _merge_sweep(store.root, other, name, done, dry_run)
    return done


# --- runs ---


def _merge_run(store: Store, other: Store, key: str, done: Merged, dry_run: bool) -> None:
    theirs, ours, folder = _sound_record(other, key), store.record(key), store.run_folder(key)
    has_ended = theirs is not None and theirs.ends()
    if ours is not None and ours.ends() and theirs is not None and has_ended:
        if contradictions := differences(ours, theirs):
            done.conflicts[key] = contradictions
        else:
            done.here += 1
    elif folder.exists() and (not has_ended or (ours is not None and ours.ends())):
        done.here += 1
    elif store.state(key).status is Status.RUNNING:
        done.left[key] = f"{store.state(key).owner or 'somebody'} is at work on it here"
    elif theirs is None and other.state(key).status is Status.RUNNING:
        done.left[key] = "somebody is at work on it there"
    elif dry_run or _copy(store, key, other.run_folder(key)):
        done.taken[theirs.status if theirs is not None else "unfinished"] += 1
    else:
        done.left[key] = "somebody was quicker; import again"


def _sound_record(store: Store, key: str) -> RunRecord | None:
    """Raises _DamagedError unless the record, or without one the config, is what the key stands for."""
    files = store.files(key)
    record = RunRecord.from_json(atomic.read_json(files.record))
    if record is None and files.record.exists():
        raise _DamagedError("its record.json is damaged")
    try:
        config = record.config if record is not None else files.read_config()
        keys = stored_keys(as_stored(settings_of(config)))
    except (UsageError, ValueError) as error:
        raise _DamagedError(f"this code can't read its config: {error}") from None
    if key not in keys or (record is not None and record.key != key):
        raise _DamagedError("its config is that of another key")
    if record is not None and record.digest:
        raise _DamagedError(str(CHANGED))
    return record


def differences(ours: RunRecord, theirs: RunRecord) -> list[Difference]:
    """All in which two records of a run contradict each other, but for what depends on the machine."""
    here, there = (
        {"status": record.status, "steps": record.steps, **record.metrics, "digest": record.digest}
        for record in (ours, theirs)
    )
    compared = (Difference(name, here.get(name), there.get(name)) for name in here | there)
    return [difference for difference in compared if difference.here != difference.there]


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
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                _copy_file(source / name, folder / name)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file with its time; who may read it is up to the folder that it goes to."""
    modified = source.stat().st_mtime_ns
    with source.open("rb") as file:
        atomic.write_with(target, lambda copy: shutil.copyfileobj(file, copy, 1 << 20))
    os.utime(target, ns=(modified, modified))


# --- sweeps ---


def _merge_sweep(root: Path, other: Path, name: str, done: Merged, dry_run: bool) -> None:
    """Copy a sweep that this store lacks, with the slots of its searches but without its submissions."""
    target = sweep_folder(root, name)
    try:
        source = sweep_folder(other, name)
        read_points(other, name)
    except UsageError as error:
        done.refused[name] = str(error)
        return
    if target.exists():
        if _contents(source) != _contents(target):
            done.differing.append(name)
        return
    if not dry_run:
        make_folder(target.parent)
        with _staged(source, target, plan_files(source)) as staged:
            os.rename(staged, target)
    done.sweeps.append(name)


def plan_files(folder: Path) -> list[str]:
    """The files of a sweep that another store needs, below its folder: plan and filled slots."""
    slots = sorted(folder.glob(f"{SLOTS}/*/[!.]*.json"))
    filled = (path for path in slots if not leads_away(str(path.parent), levels=2))
    paths = [folder / SPEC, folder / POINTS, *filled]
    return [str(path.relative_to(folder)) for path in paths if path.is_file()]


def _contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in plan_files(folder)}
