"""Finds damaged files of a store, and changes none of them."""

import contextlib
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.store import Store, submissions
from htbench.harness.store.integrity import LOST, find_contradiction
from htbench.harness.store.layout import (
    ATTEMPTS,
    INDEX,
    RECORD,
    RUNS,
    STUDIES,
    SWEEPS,
    is_key,
    run_keys,
    sweeps_folder,
)
from htbench.harness.store.owner import Owner
from htbench.harness.store.points import (
    POINTS,
    SLOTS,
    SUBMISSIONS,
    read_points,
    read_slot,
    sweep_folder,
    sweep_names,
)
from htbench.harness.store.run_folder import RunFile, read_attempt
from htbench.harness.store.study import find_study
from htbench.harness.system import atomic
from htbench.harness.system.finding import Finding, note, ok, problem

SECONDS = 5.0  # that a look at the store may take
_BY_NAME = {RECORD: "record", POINTS: "points", SUBMISSIONS: "submissions"}
_ADVICE = {
    "link": "mend_link",
    "record": "mend_record",
    "points": "mend_plan",
    "study": "mend_plan",
    "slot": "mend_slot",
    "submissions": "mend_submissions",
    "attempt": "mend_attempt",
}
_HARMLESS = ("attempt", "submissions")  # kinds of damaged files that cost nothing


class Survey:
    """A look at every file of the store but the caches; paths are relative to the root.

    Attributes:
        runs: number of runs.
        sweeps: names of the sweeps that have a plan or a file.
        records: number of sound records.
        faults: run -> what is wrong with its record.
        damaged: link, record, attempt, points, slot, submissions or study -> files that can't be read whole.
        complete: False if the time limit came before all files were read.

    Args:
        root: the store; it need not exist.
        seconds: time limit; the remaining files are left out.
    """

    def __init__(self, root: Path, seconds: float = SECONDS) -> None:
        until = time.monotonic() + seconds
        self.root, self.store, self.runs = root, Store(root), len(run_keys(root))
        self.sweeps = [name for name in sweep_names(root) if not (sweeps_folder(root) / name).is_symlink()]
        self.records = 0
        self.faults: dict[str, Note] = {}
        self.damaged: dict[str, list[str]] = {}
        self.complete = True
        for plan in [sweep_folder(root, name) / POINTS for name in self.sweeps]:
            if not plan.exists():
                self._damage("points", plan)
        for path in self._files():
            if time.monotonic() > until:
                self.complete = False
                break
            try:
                self._look(path)
            except FileNotFoundError:  # a live run has replaced or removed it meanwhile
                continue

    def _damage(self, kind: str, path: Path) -> None:
        self.damaged.setdefault(kind, []).append(str(path.relative_to(self.root)))

    def _files(self) -> Iterator[Path]:
        """Files in the root, those of sweeps and studies, then those of runs: the few before the many."""
        yield from (path for path in sorted(self.root.glob("*")) if path.is_file())
        for part in (SWEEPS, STUDIES, RUNS):
            for folder, folders, names in os.walk(self.root / part):
                links = (name for name in folders if os.path.islink(f"{folder}/{name}"))
                yield from (RunFile(folder, name) for name in (*names, *links))
                yield from (RunFile(folder) for _ in filter(is_key, [os.path.basename(folder)]))

    def _look(self, path: Path) -> None:
        kind = _read_kind(path)
        if os.path.islink(path):
            if path.parent != self.root or path.name == INDEX:
                self._damage("link", path)
            return
        if atomic.is_temporary(path.name):  # `runs gc` clears them away
            return
        if kind and not _is_sound(kind, path, self.store):
            self._damage(kind, path)
        elif kind == "record":
            self.records += 1
        elif is_key(path.name) and (fault := _find_fault(self.store, path.name)):
            self.faults[path.name] = fault

    # --- what to tell of it ---

    def findings(self) -> Iterator[Finding]:
        """What was found, with advice."""
        words = f"{' '.join(self.sweeps) or 'SPEC'} --root {shlex.quote(str(self.root))}"
        whole = Note("store_has", runs=self.runs, records=self.records, sweeps=len(self.sweeps))
        yield ok("store", whole if self.runs or self.sweeps else Note("store_is_empty"))
        if not self.complete:
            yield note("store", Note("store_is_large"))
        for kind, paths in self.damaged.items():
            level = note if kind in _HARMLESS else problem
            fact = Note("links", paths=paths) if kind == "link" else Note("damaged", kind=kind, paths=paths)
            action = "run" if kind == "record" else "index"
            yield level("store", fact, Note(_ADVICE[kind], command=f"htbench sweep {action} {words}"))
        for key, fault in self.faults.items():
            delete = Note("delete_the_run", folder=self.store.run_folder(key))
            fact = Note("run_fault", run=key, what=fault)
            yield problem("records", fact, "" if fault.kind in LOST else delete)


def faults(store: Store) -> dict[str, Note]:
    """The runs whose record does not agree with their curve or is lost, with what is wrong."""
    return {key: fault for key in store.keys() if (fault := _find_fault(store, key)) is not None}


def _find_fault(store: Store, key: str) -> Note | None:
    record = store.record(key)
    if record is None:
        return store.state(key).lost_record
    return find_contradiction(store.run_folder(key), record)


def _read_kind(path: Path) -> str:
    if path.parent.name == ATTEMPTS:
        return "attempt"
    if path.parent.parent.name == SLOTS and path.suffix == ".json":
        return "slot"
    return _BY_NAME.get(path.name, "study" if path.suffix == ".journal" else "")


def _is_sound(kind: str, path: Path, store: Store) -> bool:
    if kind == "record":
        return is_key(path.parent.name) and store.record(path.parent.name) is not None
    if kind == "attempt":
        attempt = read_attempt(path)
        return bool(attempt) and ("owner" not in attempt or Owner.from_json(attempt["owner"]) is not None)
    if kind == "slot":
        sweep, study = path.parts[-4], path.parts[-2]
        read = find_study(store.root, sweep, study) if path.stem == "study" else None
        return bool(read or read_slot(store.root, sweep, f"{study}/{path.stem}"))
    if kind == "points":
        with contextlib.suppress(UsageError):
            return bool(read_points(store.root, path.parent.name))
        return False
    if kind == "submissions":
        return submissions.is_sound(path)
    return len(atomic.read_json_lines(path)) == len(atomic.read_lines(path))
