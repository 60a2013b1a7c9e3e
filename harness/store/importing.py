"""Imports runs and sweeps of another store into this one; the other store is only read.

A run is copied under a temporary name, claimed, renamed and finished by its record, as if it had been trained
here. A run that has ended here and there with one result gets the files and figures that it lacks. After a
crash the same import is run again: it leaves out what is here already.
"""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.config.key import stored_keys
from harness.config.names import settings_of
from harness.config.settings import as_stored
from harness.errors import UsageError
from harness.show.note import Note
from harness.show.status import Status
from harness.store import Attempt, Reason, Store, curve, layout
from harness.store.copies import Difference, completed, differences, same_result
from harness.store.integrity import CHANGED, contradiction
from harness.store.layout import CHECKPOINT, LOG, METRICS, PACKED, RUNS, SPECTRA, SWEEPS, WEIGHTS
from harness.store.points import POINTS, SLOTS, SPEC, read_points, sweep_folder, sweep_names
from harness.store.record import RunRecord
from harness.store.run_folder import RunFolder
from harness.system import atomic
from harness.system.folders import make_folder
from harness.system.links import leads_away

# The curve and the spectra after the checkpoint: rows beyond it are cut on resuming, rows missing before it
# are lost.
_OF_ANY = (CHECKPOINT, METRICS, SPECTRA, LOG)
_OF_FINAL = (METRICS, SPECTRA, LOG, layout.TEST_ITEMS, WEIGHTS)


@dataclass
class Merged:
    """What the import did with the other store's runs and sweeps.

    Attributes:
        taken: number of runs by status: completed, diverged, pruned, or `unfinished` with a checkpoint.
        here: number of runs that are here already, as they are there or further.
        completed: run -> the files and the tasks of downstream figures that were missing here, though the run
            was here already.
        conflicts: run -> in what our and their results differ; both have ended. Ours stays.
        left: run -> why it was left out; a later import may take it.
        refused: run or sweep -> what is wrong with it there.
        sweeps: names of the sweeps that were taken.
        differing: names of sweeps that are here with other points. Ours stay.
    """

    taken: Counter[str] = field(default_factory=Counter)
    here: int = 0
    completed: dict[str, list[str]] = field(default_factory=dict)
    conflicts: dict[str, list[Difference]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    sweeps: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


class _DamagedError(Exception):
    """A run of the other store can't be trusted."""


def merge(store: Store, other: Path, *, dry_run: bool = False) -> Merged:
    """Import the runs of `other` that got further than ours, and its sweeps, in the order of keys and names.

    Args:
        store: the store that grows.
        other: the root of another.
        dry_run: only say what would be done.

    Raises:
        UsageError: `other` is no store, or is this one.
    """
    if not any((other / name).is_dir() for name in (RUNS, SWEEPS, PACKED)):
        raise UsageError(f"'{other}' is no store: it has neither runs/ nor sweeps/, nor compact records.")
    if other.resolve() == store.root.resolve():
        raise UsageError(f"'{other}' is this store itself; name another one.")
    done = Merged()
    there_store = Store(other, read_only=True)
    for key in there_store.keys():
        there = there_store.files(key)
        if not (there.record.exists() or there.checkpoint.exists()):
            continue  # it has neither a result nor a checkpoint
        try:
            _Run(store, there_store, key, done).merge(dry_run)
        except _DamagedError as error:
            done.refused[key] = str(error)
    for name in sweep_names(other):
        _merge_sweep(store.root, other, name, done, dry_run)
    return done


# --- runs ---


class _Run:
    """One run as both stores have it."""

    def __init__(self, store: Store, other: Store, key: str, done: Merged) -> None:
        self.store, self.other, self.key, self.done = store, other, key, done
        self.source, self.target = other.files(key), store.files(key)
        self.theirs = self._their_record()
        self.ours = store.record(key)

    def _their_record(self) -> RunRecord | None:
        """Raises _DamagedError unless the record, or without one the config, is what the key stands for."""
        record = RunRecord.from_json(atomic.read_json(self.source.record))
        if record is None and self.source.record.exists():
            raise _DamagedError("its record.json is damaged")
        try:
            config = record.config if record is not None else self.source.read_config()
            keys = stored_keys(as_stored(settings_of(config)))
        except (UsageError, ValueError) as error:
            raise _DamagedError(f"this code can't read its config: {error}") from None
        if self.key not in keys or (record is not None and record.key != self.key):
            raise _DamagedError("its config is that of another key")
        if record is not None and record.digest:
            raise _DamagedError(str(CHANGED))
        return record

    def merge(self, dry_run: bool) -> None:
        """Import the run if the other store's got further."""
        if self.ours is not None and self.ours.status is not Status.PRUNED:
            self._compare(self.ours, dry_run)
        elif self.theirs is not None and self.theirs.status is not Status.PRUNED:
            self._take(self.theirs, _OF_FINAL, dry_run)
        else:
            further = _progress(self.source) > _progress(self.target)
            if further and self.theirs is None and self.other.state(self.key).status is Status.RUNNING:
                self.done.left[self.key] = "somebody is at work on it there"
            elif further or self._new_prunings():
                # The record of the run that got further; None if neither has one.
                records = [record for record in (self.theirs, self.ours) if record is not None]
                record = max(records, key=lambda record: record.steps, default=None)
                self._take(record, _OF_ANY if further else (), dry_run)
            else:
                self.done.here += bool(self.target.path.exists())

    def _compare(self, ours: RunRecord, dry_run: bool) -> None:
        """Hold their result against ours, and take in the files and figures that are missing here."""
        theirs = self.theirs if self.theirs is not None and self.theirs.status is not Status.PRUNED else None
        if theirs is not None and (contradictions := differences(ours, theirs)):
            self.done.conflicts[self.key] = contradictions
        else:
            self.done.here += 1
        if theirs is None or not same_result(ours, theirs):
            return
        there, here = self.source.path, self.target.path
        names = [name for name in _OF_FINAL if (there / name).exists() and not (here / name).exists()]
        if names and (against := contradiction(there, theirs, thorough=True)):
            self.done.refused[self.key] = str(against)
            return
        more = completed(ours, theirs).downstream
        tasks = [task for task in more if more[task] != ours.downstream.get(task)]
        if names or tasks:
            self.done.completed[self.key] = [*names, *tasks]
        if dry_run:
            return
        for name in names:  # after any of them the same command goes on
            make_folder(here)
            _copy_file(there / name, here / name)
        if tasks:
            self.store.amend(self.key, lambda now: completed(now, theirs))

    def _new_prunings(self) -> list[str]:
        """The studies that have pruned the run in the other store only."""
        theirs = self.theirs.pruned_by if self.theirs is not None else []
        return [study for study in theirs if self.ours is None or study not in self.ours.pruned_by]

    def _take(self, record: RunRecord | None, names: Sequence[str], dry_run: bool) -> None:
        final = record is not None and record.status is not Status.PRUNED
        state = self.store.state(self.key)
        if state.status is Status.RUNNING:
            self.done.left[self.key] = f"{state.owner or 'somebody'} is at work on it here"
        elif state.status is Status.FAILED and not final:
            self.done.left[self.key] = str(Note("merge_failed_here", reason=state.reason))
        elif dry_run or self._copy(record, names, final):
            self.done.taken[record.status if record is not None else "unfinished"] += 1

    def _copy(self, record: RunRecord | None, names: Sequence[str], final: bool) -> bool:
        layout.begin(self.store.root)
        make_folder(self.target.path)  # refused if it is a link
        with _staged(self.source.path, self.target.path, names) as staged:
            if final:
                self.store.reset_failure(self.key)  # the imported result replaces the failure
            config = self.source.config.read_text(encoding="utf-8") if self.source.config.exists() else ""
            claim = self.store.claim(self.key, config)
            if not isinstance(claim, Attempt):
                self.done.left[self.key] = "somebody was quicker; import again"
                return False
            if final:
                self.target.checkpoint.unlink(missing_ok=True)  # it belongs to the old curve
            for name in reversed(names):  # the checkpoint last: it needs its curve
                if (staged / name).exists():
                    os.replace(staged / name, self.target.path / name)
            atomic.sync_folder(self.target.path)
            if record is None:
                claim.end(Reason.STOPPED, "imported")
            else:
                claim.finish(replace(record, pruned_by=self._new_prunings()))
                if record is self.theirs:
                    self.store.date(self.key, self.source.record.stat().st_mtime_ns)
        return True


def _progress(files: RunFolder) -> int:
    """About the step from which the run can resume: the last one of the curve; 0 without a checkpoint."""
    if not files.checkpoint.exists():
        return 0
    return max((row["step"] for row in curve.read(files.metrics) if "loss" in row), default=0)


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
    with source.open("rb") as file:
        atomic.write_from(target, file, source.stat().st_mtime_ns)


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
