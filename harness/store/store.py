"""The store: one folder per run, one owner per folder, one record per run.

    <root>/runs/<k2>/<key>/   the files of one run (`harness/store/run_folder.py`)
    <root>/packed/<n>.zip     those of a thousand finished runs (`harness/store/archive.py`)
    <root>/index.jsonl        every record once more, one per line: quick to read, rebuilt from the folders

The process that creates `attempts/<n>.json` owns the run. Attempt n+1 may be created only when the owner of n
is dead. An owner that finds a higher attempt than its own has lost the run and writes nothing more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness.store import layout
from harness.store.attempt import Attempt
from harness.store.integrity import lost
from harness.store.owner import Owner, is_alive
from harness.store.record import RunRecord
from harness.store.records import Records
from harness.system import atomic
from harness.system.folders import make_folder, write_for_the_group


class Kind(Enum):
    """The state of a run."""

    FINISHED = "finished"
    LIVE = "running"
    FAILED = "failed"
    WAITING = "waiting"
    QUEUED = "queued"  # waiting, with a job in SLURM's queue; the store alone never says so


@dataclass(frozen=True)
class RunState:
    """What the store knows of one run."""

    kind: Kind
    attempts: int = 0
    record: RunRecord | None = None
    reason: str = ""  # of a failure: oom, timeout, killed or error
    message: str = ""
    owner: Owner | None = None


class Store(Records):
    """A folder of runs that many processes share.

    Raises UsageError if another version of the code has written it.

    Args:
        root: the folder; created when first written to.
        alive: whether an owner lives, by its heartbeat file; tests pass their own.
        read_only: nothing is written into it, so what its group may read does not matter.
    """

    def __init__(
        self,
        root: Path | str,
        alive: Callable[[Owner | None, Path], bool] = is_alive,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(root)
        layout.check_format(self.root)
        if not read_only:
            write_for_the_group(self.root)
        self.alive = alive

    def state(self, key: str, study: str = "") -> RunState:
        """The state of a run for `study`. A run that only another study has pruned is waiting."""
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
            if self.alive(owner, self.files(key).attempt(number)):
                return RunState(Kind.LIVE, number, owner=owner)
            if self._crashed_without_progress(key, number):
                message = "two processes in a row were killed before their first checkpoint"
                return RunState(Kind.FAILED, number, reason="killed", message=message)
        gone = lost(self.run_folder(key)) if record is None else ""
        record = self.record(key) if gone else None  # it may have been written meanwhile
        if record is not None and record.ends(study):
            return RunState(Kind.FINISHED, number, record)
        return RunState(Kind.WAITING, number, message=gone or outcome.get("message", ""))

    def _crashed_without_progress(self, key: str, number: int) -> bool:
        """Whether dead attempt `number` and the one before it were killed without a new checkpoint."""
        if number < 2:
            return False
        last, before = self.attempt(key, number), self.attempt(key, number - 1)
        marks = [attempt.get("checkpoint_found") for attempt in (before, last)] + [self._checkpoint_mark(key)]
        killed = all(attempt and attempt.get("outcome") is None for attempt in (before, last))
        return killed and marks[0] == marks[1] == marks[2]

    def _checkpoint_mark(self, key: str) -> int | None:
        """The modification time of the checkpoint in nanoseconds; None if there is none."""
        try:
            return self.files(key).checkpoint.stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def claim(self, key: str, config_yaml: str, study: str = "") -> Attempt | RunState:
        """Become the owner of a run that waits; otherwise return its state.

        Args:
            key: the run.
            config_yaml: its config, written into the folder for people; empty: keep the file.
            study: the study that wants the run; empty: none.
        """
        files = self.files(key)
        layout.begin(self.root)
        while True:
            state = self.state(key, study)
            if state.kind is not Kind.WAITING:
                return state
            attempt = Attempt(
                self, key, state.attempts + 1, Owner.current(), checkpoint_found=self._checkpoint_mark(key)
            )
            with contextlib.suppress(FileNotFoundError):  # `runs gc` or `runs pack` has removed the folder
                make_folder(files.attempts)
                if atomic.create_json(attempt.path, attempt.to_json()):
                    break
        for place in (files.path, files.attempts):
            atomic.remove_temporaries(place)
        if config_yaml:
            atomic.write_text(files.config, config_yaml)
        atomic.crash_point("claimed")
        atomic.refresh_file_cache(files.path)
        self.packed.look_again()
        record = self.record(key)
        if record is not None and record.ends(study):  # the previous owner has ended meanwhile
            attempt.end("finished")
            return RunState(Kind.FINISHED, attempt.number, record)
        return attempt

    def reset_failure(self, key: str) -> bool:
        """Turn a failed run into a waiting one; False if it has not failed."""
        state = self.state(key)
        if state.kind is not Kind.FAILED:
            return False
        path = self.files(key).attempt(state.attempts)
        atomic.write_json(path, self.attempt(key, state.attempts) | {"outcome": {"reason": "stopped"}})
        return True
