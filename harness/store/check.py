"""Finds damaged and leftover files of a store, and changes none of them.

The store repairs most of them when it reads them; this check reports them before.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.show.note import Note
from harness.show.status import Status
from harness.store import Store, copies, submissions
from harness.store.archive import DamagedError
from harness.store.copies import Difference
from harness.store.index import Index
from harness.store.integrity import contradiction, lost
from harness.store.layout import INDEX, RUNS, STUDIES, SWEEPS, is_key, run_keys, sweeps_folder
from harness.store.owner import STALE_SECONDS, Owner, is_ahead
from harness.store.points import POINTS, SLOTS, SPEC, SUBMISSIONS, read_points, read_slot, read_study
from harness.store.record import RunRecord
from harness.store.run_file import RunFile
from harness.store.run_folder import ATTEMPTS, METRICS, RECORD, RunFolder, read_attempt
from harness.system import atomic

_BY_NAME = {RECORD: "record", POINTS: "points", SUBMISSIONS: "submissions"}


@dataclass
class Survey:
    """What was found; paths are relative to the root.

    Attributes:
        runs: number of runs, in folders and in archives.
        packed: number of runs in archives.
        sweeps: names of the sweeps that have a plan or a file.
        records: run -> size of its sound record, in bytes.
        index: run -> size of its record as the index has it.
        differing: runs whose record is not what the index says, though it has the same size.
        faults: run -> what is wrong with its record.
        contested: run -> the archives that have other results of it than readers see, with the differences.
        without_curve: completed runs without a metrics.jsonl with which to compare their record.
        torn_index_lines: lines of the index that are no JSON objects.
        damaged: link, archive, record, attempt, points, slot, submissions or study -> the files that can't be
            read whole. With an archive among them nothing else is told: nobody knows what is in it.
        ahead: attempts without an end whose heartbeat is from the future, which proves no life.
        leftovers: temporary files that are older than STALE_SECONDS.
        complete: False if the time limit came before all files were read.
    """

    runs: int = 0
    packed: int = 0
    sweeps: list[str] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)
    faults: dict[str, Note] = field(default_factory=dict)
    contested: dict[str, dict[Path, list[Difference]]] = field(default_factory=dict)
    without_curve: list[str] = field(default_factory=list)
    torn_index_lines: int = 0
    damaged: dict[str, list[str]] = field(default_factory=dict)
    ahead: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    complete: bool = True


SECONDS = 5.0  # that a look at the store may take


def survey(root: Path, seconds: float = SECONDS) -> Survey:
    """Look at every file of the store but the caches.

    Args:
        root: the store; it need not exist.
        seconds: time limit; the remaining files are left out.
    """
    until = time.monotonic() + seconds
    store, found = Store(root), Survey(sweeps=_sweeps(root))
    packed = store.packed.look()
    found.runs, found.packed = len({*run_keys(root), *packed.runs}), len(packed.runs)
    if packed.damaged:
        found.damaged["archive"] = [str(path.relative_to(root)) for path in packed.damaged]
        return found
    noted = _read_index(store.index, found)
    for path in _files(store):
        if time.monotonic() > until:
            found.complete = False
            break
        try:
            _look(path, root, found)
            if _stands_for_its_run(path):
                _look_at_run(store.files(path.parent.name), store, noted, found)
        except DamagedError:
            _note_archive(store, path, found)
        except FileNotFoundError:  # a live run has replaced or removed it meanwhile
            continue
    if not found.damaged.get("archive"):
        runs = copies.several(store, packed.runs)
        found.contested = {key: what for key, run in runs.items() if (what := run.contradictions())}
    return found


def faults(store: Store) -> dict[str, Note]:
    """The runs whose record does not agree with their curve or is lost, with what is wrong."""
    found = ((key, _fault(store, key)) for key in store.keys())
    return {key: what for key, what in found if what is not None}


def _fault(store: Store, key: str) -> Note | None:
    files = store.files(key)
    record = _record(files)
    if record is not None:
        return contradiction(files.path, record, thorough=True)
    gone = lost(files.path)
    if gone and files.record.exists():  # do not call `store.state`: it would repair the record
        return None if key in store.index.rows() else gone
    if gone is None:
        return None
    status = store.state(key).status
    return None if status is Status.RUNNING or status.has_ended else gone


def _record(files: RunFolder) -> RunRecord | None:
    """A run's own record, if it is sound."""
    record = RunRecord.from_json(atomic.read_json(files.record))
    return record if record is not None and record.key == files.path.name else None


def _sweeps(root: Path) -> list[str]:
    paths = [path for name in (SPEC, POINTS) for path in sweeps_folder(root).glob(f"*/{name}")]
    return sorted({path.parent.name for path in paths if not path.parent.is_symlink()})


def _files(store: Store) -> Iterator[Path]:
    """Files right in the root, those of sweeps and studies, then those of runs: the few before the many."""
    root = store.root
    yield from (path for path in sorted(root.glob("*")) if path.is_file())
    for part in (SWEEPS, STUDIES, RUNS):
        for folder, folders, names in os.walk(root / part):
            links = (name for name in folders if os.path.islink(f"{folder}/{name}"))
            yield from (RunFile(folder, name) for name in (*names, *links))
    for key, archive in store.packed.look().runs.items():
        paths = (store.run_folder(key) / name for name in archive.runs[key])
        yield from (path for path in paths if not os.path.lexists(path))  # else it was looked at already


def _note_archive(store: Store, path: Path, found: Survey) -> None:
    """Note that the archive with this file of a run is damaged."""
    key = path.relative_to(store.root / RUNS).parts[1]
    own, paths = store.packed.look().runs.get(key), found.damaged.setdefault("archive", [])
    if own is not None and (name := str(own.path.relative_to(store.root))) not in paths:
        paths.append(name)


def _look(path: Path, root: Path, found: Survey) -> None:
    if os.path.islink(path) and (path.parent != root or path.name == INDEX):
        found.damaged.setdefault("link", []).append(str(path.relative_to(root)))
        return
    if atomic.is_temporary(path.name):
        if time.time() - path.stat().st_mtime > STALE_SECONDS:
            found.leftovers.append(str(path.relative_to(root)))
        return
    kind = _kind(path)
    if not kind and isinstance(path, RunFile) and not os.path.lexists(path):
        path.read_bytes()  # from an archive, with its CRC
    if kind and not _is_sound(kind, path, root):
        found.damaged.setdefault(kind, []).append(str(path.relative_to(root)))
    elif kind == "record":
        found.records[path.parent.name] = path.stat().st_size
    if kind == "attempt" and not read_attempt(path).get("outcome") and is_ahead(path):
        found.ahead.append(str(path.relative_to(root)))


def _stands_for_its_run(path: Path) -> bool:
    """Whether to check the run of this file: once for each run that has or had a record."""
    if not is_key(path.parent.name) or os.path.islink(path):
        return False
    if path.name == METRICS:
        return not RunFolder(path.parent).record.exists()
    return path.name == RECORD


def _look_at_run(files: RunFolder, store: Store, noted: Mapping[str, RunRecord], found: Survey) -> None:
    record, key = _record(files), files.path.name
    if record is not None and noted.get(key, record) != record:
        found.differing.append(key)
    if record is not None and record.status == "completed" and not files.metrics.exists():
        found.without_curve.append(key)
    if what := _fault(store, key):
        found.faults[key] = what


def _kind(path: Path) -> str:
    if path.parent.name == ATTEMPTS:
        return "attempt"
    if path.parent.parent.name == SLOTS and path.suffix == ".json":
        return "slot"
    return _BY_NAME.get(path.name, "study" if path.suffix == ".journal" else "")


def _is_sound(kind: str, path: Path, root: Path) -> bool:
    if kind == "record":
        return _record(RunFolder(path.parent)) is not None
    if kind == "attempt":
        attempt = read_attempt(path)
        return bool(attempt) and ("owner" not in attempt or Owner.from_json(attempt["owner"]) is not None)
    if kind == "slot":
        sweep, study = path.parts[-4], path.parts[-2]
        read = read_study(root, sweep, study) if path.stem == "study" else None
        return bool(read or read_slot(root, sweep, f"{study}/{path.stem}"))
    if kind == "points":
        with contextlib.suppress(UsageError):
            return bool(read_points(root, path.parent.name))
        return False
    if kind == "submissions":
        return submissions.is_sound(path)
    return len(atomic.read_json_lines(path)) == atomic.count_lines(path)


def _read_index(index: Index, found: Survey) -> dict[str, RunRecord]:
    """What the index says of each run."""
    found.torn_index_lines = atomic.count_lines(index.path) - len(atomic.read_json_lines(index.path))
    found.index = {key: mark.size for key, (mark, _) in index.rows().items()}
    return {key: record for key, (_, record) in index.rows().items()}
