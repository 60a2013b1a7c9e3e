"""The store: one folder per run, one owner per folder, one record per run.

    <root>/runs/<k2>/<key>/   the files of one run (`harness/store/layout.py`)
    <root>/index.jsonl        every record once more, one per line: quick to read, rebuilt from the folders

The process that creates `attempts/<n>.json` owns the run. Attempt n+1 may be created only when the owner of n
is dead. An owner that finds a higher attempt than its own has lost the run and writes nothing more.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import layout
from htbench.harness.store.attempt import Attempt
from htbench.harness.store.integrity import explain_loss
from htbench.harness.store.owner import Owner, is_alive
from htbench.harness.store.record import RunRecord
from htbench.harness.store.records import Records
from htbench.harness.store.run_folder import Reason
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder, write_for_the_group


@dataclass(frozen=True)
class RunState:
    """What the store knows of one run.

    Attributes:
        status: if it has ended, that of its record.
        attempts: how many there were.
        record: of a run that has ended.
        reason: of a failure.
        lost_record: why a run that had ended has no valid record.
        error_message: of the attempt that ended last, in words that are not ours.
        owner: of a run at work.
    """

    status: Status
    attempts: int = 0
    record: RunRecord | None = None
    reason: Reason | None = None
    lost_record: Note | None = None
    error_message: str = ""
    owner: Owner | None = None

    @property
    def message(self) -> str:
        """What there is to say of a run that has not ended, in words."""
        if self.reason is Reason.KILLED:
            return str(Note("killed_twice"))
        return str(self.lost_record or self.error_message)


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
        super().__init__(root, alive)
        layout.check_format(self.root)
        if not read_only:
            write_for_the_group(self.root)

    def state(self, key: str, study: str = "") -> RunState:
        """The state of a run for `study`. A run that only another study has pruned is waiting."""
        if not self.run_folder(key).exists():  # as most of ten thousand that are planned
            return RunState(Status.WAITING, 0)
        record = self.record(key)
        number = self.last_attempt(key)
        if record is not None and record.ends(study):
            return RunState(record.status, number, record)
        last = self.attempt(key, number)
        outcome = last.get("outcome") or {}
        reason, error_message = outcome.get("reason"), outcome.get("message", "")
        owner = Owner.from_json(last.get("owner"))
        if number and not last.get("ended") and self.alive(owner, self.files(key).attempt(number)):
            return RunState(Status.RUNNING, number, owner=owner)
        if reason is not None and Reason(reason).is_failure:
            return RunState(Status.FAILED, number, reason=Reason(reason), error_message=error_message)
        if reason in (None, Reason.DIED) and self._died_without_progress(key, number):
            return RunState(Status.FAILED, number, reason=Reason.KILLED)
        gone = explain_loss(self.run_folder(key)) if record is None else None
        record = self.record(key) if gone else None  # it may have been written meanwhile
        if record is not None and record.ends(study):
            return RunState(record.status, number, record)
        return RunState(Status.WAITING, number, lost_record=gone, error_message=error_message)

    def _died_without_progress(self, key: str, number: int) -> bool:
        """Whether attempt `number`, not at work, and the one before it have died without a new checkpoint.

        A death outside of SLURM counts if a launcher has seen it. One that took the launcher, too, such as a
        machine that goes down, says nothing of the run.
        """
        if number < 2:
            return False
        last, before = self.attempt(key, number), self.attempt(key, number - 1)
        marks = [attempt.get("checkpoint_found") for attempt in (before, last)] + [self._checkpoint_mark(key)]
        return _counts(before) and _counts(last) and marks[0] == marks[1] == marks[2]

    def _checkpoint_mark(self, key: str) -> int | None:
        """The modification time of the checkpoint in nanoseconds; None if there is none.

        Of a program, whose checkpoints are not ours, that of its metrics.
        """
        files = self.files(key)
        try:
            return (files.metrics if files.program.exists() else files.checkpoint).stat().st_mtime_ns
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
            if state.status is not Status.WAITING:
                return state
            attempt = Attempt(
                self, key, state.attempts + 1, Owner.current(), checkpoint_found=self._checkpoint_mark(key)
            )
            with contextlib.suppress(FileNotFoundError):  # `runs gc` has removed the folder
                make_folder(files.attempts)
                if atomic.create_json(attempt.path, attempt.to_json()):
                    break
        for place in (files.path, files.attempts):
            atomic.remove_temporaries(place)
        if config_yaml:
            atomic.write_text(files.config, config_yaml)
        atomic.crash_point("claimed")
        atomic.refresh_file_cache(files.path)
        record = self.record(key)
        if record is not None and record.ends(study):  # the previous owner has ended meanwhile
            attempt.end(Reason.FINISHED)
            return RunState(record.status, attempt.number, record)
        return attempt

    def note_death(self, key: str, number: int) -> None:
        """Note what the launcher of attempt `number` saw: its process died, by a signal, and left no word."""
        path, attempt = self.files(key).attempt(number), self.attempt(key, number)
        if not attempt.get("outcome") and not self.alive(Owner.from_json(attempt.get("owner")), path):
            atomic.write_json(path, attempt | {"outcome": {"reason": Reason.DIED}, "ended": time.time()})

    def reset_failure(self, key: str) -> bool:
        """Turn a failed run into a waiting one; False if it has not failed."""
        state = self.state(key)
        if state.status is not Status.FAILED:
            return False
        path = self.files(key).attempt(state.attempts)
        ended = {"outcome": {"reason": Reason.STOPPED}, "ended": time.time()}  # else this is a sign of life
        atomic.write_json(path, self.attempt(key, state.attempts) | ended)
        return True


def _counts(attempt: Mapping[str, Any]) -> bool:
    """Whether an attempt, not at work, died such that it counts against its run."""
    job, outcome = (attempt.get("owner") or {}).get("job"), attempt.get("outcome")
    return outcome.get("reason") == Reason.DIED if outcome else bool(job)
