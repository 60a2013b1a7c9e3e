"""The store: one folder per run, one owner per folder, one record per run.

    <root>/runs/<k2>/<key>/ config.yaml  attempts/<n>.json  metrics.jsonl  log.txt  checkpoint.pt  record.json
    <root>/index.jsonl      every record once more, one per line: quick to read, rebuilt from the folders

Whoever creates `attempts/<n>.json` first owns the run. Attempt n+1 may be created only when the owner of n is
dead, and an owner that finds a higher attempt than its own has lost the run and writes nothing more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from harness.store.attempt import Attempt
from harness.store.index import Index
from harness.store.integrity import lost
from harness.store.owner import Owner, is_alive
from harness.store.record import RunRecord
from harness.system import atomic
from harness.system.folders import make_folder, write_for_the_group

__all__ = ["Attempt", "Kind", "RunState", "Store", "make_folder"]


class Kind(Enum):
    """What a run can be."""

    FINISHED = "finished"
    LIVE = "running"
    FAILED = "failed"
    WAITING = "waiting"
    QUEUED = "queued"  # waiting, with a job on SLURM; only who has looked into its queue says so


@dataclass(frozen=True)
class RunState:
    """What the store knows of one run."""

    kind: Kind
    attempts: int = 0
    record: RunRecord | None = None
    reason: str = ""  # of a failure: oom, timeout, killed or error
    message: str = ""
    owner: Owner | None = None


class Store:
    """A folder of runs that many processes share.

    Args:
        root: the folder; created when first written to.
        alive: judges whether an owner lives; tests pass their own.
    """

    def __init__(self, root: Path | str, alive: Callable[[Owner | None, Path], bool] = is_alive) -> None:
        self.root = Path(root)
        write_for_the_group(self.root)
        self.alive = alive
        self.index = Index(self.root / "index.jsonl")
        self._folders: dict[str, Path] = {}

    # --- reading ---

    def run_folder(self, key: str) -> Path:
        """Where the run `key` lives."""
        folder = self._folders.get(key)  # whoever looks at ten thousand runs asks often
        if folder is None:
            folder = self._folders[key] = Path(f"{self.root}/runs/{key[:2]}/{key}")
        return folder

    def last_attempt(self, key: str) -> int:
        """The number of the highest attempt, 0 if nobody ever tried."""
        folder = self.run_folder(key) / "attempts"
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return 0
        return max(
            (int(stem) for stem, dot, end in (n.partition(".") for n in names) if stem.isdigit()), default=0
        )

    def record(self, key: str) -> RunRecord | None:
        """The record of a finished run, mended from the index if its file is garbage."""
        path = self.run_folder(key) / "record.json"
        if not path.exists():
            return None
        record = RunRecord.from_json(atomic.read_json(path))
        if record is not None and record.key == key:
            return record
        return self._mend_record(key, path)

    def _mend_record(self, key: str, path: Path) -> RunRecord | None:
        _, record = self.index.rows().get(key, (0, None))
        if record is not None:
            with contextlib.suppress(OSError):  # a reader of somebody else's store need not be able to write
                atomic.write_json(path, record.to_json())
        return record

    def state(self, key: str, study: str = "") -> RunState:
        """What became of a run so far, as `study` sees it: what another has pruned waits."""
        record = self.record(key)
        number = self.last_attempt(key)
        if record is not None and record.ends(study):
            return RunState(Kind.FINISHED, number, record)
        if number == 0:
            return RunState(Kind.WAITING)
        last = self.attempt(key, number)
        outcome = last.get("outcome") or {}
        reason = outcome.get("reason", "")
        if reason in ("oom", "timeout", "error"):
            return RunState(Kind.FAILED, number, reason=reason, message=outcome.get("message", ""))
        if not reason:
            owner = Owner.from_json(last.get("owner"))
            if self.alive(owner, self.run_folder(key) / "attempts" / f"{number}.json"):
                return RunState(Kind.LIVE, number, owner=owner)
            if self._died_in_vain(key, number):
                message = "two processes in a row were killed before their first checkpoint"
                return RunState(Kind.FAILED, number, reason="killed", message=message)
        gone = lost(self.run_folder(key)) if record is None else ""
        record = self.record(key) if gone else None  # it may have been written while we looked
        if record is not None and record.ends(study):
            return RunState(Kind.FINISHED, number, record)
        return RunState(Kind.WAITING, number, message=gone or outcome.get("message", ""))

    def repeated_steps(self, key: str) -> int:
        """How many updates of a run were made again after deaths, as far as its curve had been written."""
        attempts = range(1, self.last_attempt(key) + 1)
        return sum(self.attempt(key, number).get("repeats", 0) for number in attempts)

    def attempt(self, key: str, number: int) -> dict[str, Any]:
        """The file of an attempt; empty if it is missing or garbage."""
        value = atomic.read_json(self.run_folder(key) / "attempts" / f"{number}.json") if number else None
        return value if isinstance(value, dict) else {}

    def _died_in_vain(self, key: str, number: int) -> bool:
        """Whether attempts `number`, known to be dead, and the one before it both left no new checkpoint."""
        if number < 2:
            return False
        last, before = self.attempt(key, number), self.attempt(key, number - 1)
        marks = [attempt.get("checkpoint_found") for attempt in (before, last)] + [self._checkpoint_mark(key)]
        killed = all(attempt and attempt.get("outcome") is None for attempt in (before, last))
        return killed and marks[0] == marks[1] == marks[2]

    def _checkpoint_mark(self, key: str) -> int | None:
        """Tells one checkpoint from the next: its modification time in nanoseconds; None if there is none."""
        try:
            return (self.run_folder(key) / "checkpoint.pt").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    # --- working ---

    def claim(self, key: str, config_yaml: str, study: str = "") -> Attempt | RunState:
        """Become the owner of a run that waits; otherwise say what is the matter with it.

        Args:
            key: the run.
            config_yaml: its config, written into the folder for people; empty: what is there stays.
            study: on whose behalf.
        """
        folder = self.run_folder(key)
        while True:
            make_folder(folder / "attempts")
            state = self.state(key, study)
            if state.kind is not Kind.WAITING:
                return state
            attempt = Attempt(
                self, key, state.attempts + 1, Owner.current(), checkpoint_found=self._checkpoint_mark(key)
            )
            with contextlib.suppress(FileNotFoundError):  # `runs gc` was quicker
                if atomic.create_json(attempt.path, attempt.to_json(), crash="claim"):
                    break
        for place in (folder, folder / "attempts"):
            atomic.remove_temporaries(place)
        if config_yaml:
            atomic.write_text(folder / "config.yaml", config_yaml)
        atomic.crash_point("claimed")
        atomic.see_others(folder)
        record = self.record(key)
        if record is not None and record.ends(study):  # the owner before us ended just after we had looked
            attempt.end("finished")
            return RunState(Kind.FINISHED, attempt.number, record)
        return attempt

    def forgive(self, key: str) -> bool:
        """Let a failed run be tried again; False if it has not failed."""
        state = self.state(key)
        if state.kind is not Kind.FAILED:
            return False
        path = self.run_folder(key) / "attempts" / f"{state.attempts}.json"
        atomic.write_json(path, self.attempt(key, state.attempts) | {"outcome": {"reason": "stopped"}})
        return True

    def write_record(self, record: RunRecord) -> RunRecord:
        """Put a record in its place unless there is a sound one, and note it in the index.

        The record of a run that was pruned gives way to that of whoever went on with it.
        """
        path = self.run_folder(record.key) / "record.json"
        while not atomic.create_json(path, record.to_json(), crash="record"):
            existing = self.record(record.key)
            if existing is not None and existing.status == "pruned":
                record = dataclasses.replace(record, pruned_by=existing.pruned_by + record.pruned_by)
                atomic.write_json(path, record.to_json(), crash="record")
                break
            if existing is not None:
                return existing
            path.unlink(missing_ok=True)  # garbage that nothing can mend gives way to the true record
        self._note(record)
        return record

    # --- the index ---

    def records(self, keys: Iterable[str]) -> dict[str, RunRecord]:
        """The records of those of `keys` that have one; from the index, checked against the folders.

        What the index lacks is read from the folders and noted.
        """
        noted = self.index.rows()
        found: dict[str, RunRecord] = {}
        for key in keys:
            try:
                size = os.stat(self.run_folder(key) / "record.json").st_size
            except FileNotFoundError:
                continue
            noted_size, record = noted.get(key, (None, None))
            if noted_size != size:
                record = self._read_and_note(key)
            if record is not None:
                found[key] = record
        return found

    def _read_and_note(self, key: str) -> RunRecord | None:
        record = self.record(key)
        if record is not None:
            with contextlib.suppress(OSError):  # as above
                self._note(record)
        return record

    def _note(self, record: RunRecord) -> None:
        """Tidy a finished run's folder, then list its record; if killed here, the next reader does it."""
        folder = self.run_folder(record.key)
        if record.status != "pruned":  # somebody else may be going on with it
            (folder / "checkpoint.pt").unlink(missing_ok=True)
            atomic.remove_temporaries(folder)
        self.index.note(record, (folder / "record.json").stat().st_size)

    def rebuild_index(self) -> int:
        """Write the index anew from the run folders.

        Returns:
            the number of records.
        """
        make_folder(self.root)
        with self.index.locked():
            paths = sorted(self.root.glob("runs/*/*/record.json"))
            read = [(path, self.record(path.parent.name)) for path in paths]
            rows = [(path.stat().st_size, record) for path, record in read if record is not None]
            self.index.replace(rows)
        return len(rows)
