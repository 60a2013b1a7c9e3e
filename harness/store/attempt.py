"""An attempt at a run: one process owns the run, a number orders the attempts, a heartbeat shows it alive."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from htbench.harness.errors import LostOwnershipError
from htbench.harness.store.owner import HEARTBEAT_SECONDS, Owner
from htbench.harness.store.record import RunRecord
from htbench.harness.store.records import Records
from htbench.harness.store.run_folder import Reason, RunFolder
from htbench.harness.system import atomic


@dataclass
class Attempt:
    """This process's ownership of one run.

    Attributes:
        store: the records of the store in which the run is.
        key: the run.
        number: of the attempt, from 1.
        owner: this process, or the main process of its group.
        began: when, in seconds since 1970.
        checkpoint_found: modification time of the checkpoint at the claim, in nanoseconds. If it is still the
            same at the end, the attempt has made no checkpoint. None: there was none.
        is_owner: whether this process is the owner.
    """

    store: Records
    key: str
    number: int
    owner: Owner
    began: float = field(default_factory=time.time)
    checkpoint_found: int | None = None
    is_owner: bool = True
    _stop_beating: threading.Event = field(default_factory=threading.Event)

    @property
    def files(self) -> RunFolder:
        """The run's files."""
        return self.store.files(self.key)

    @property
    def path(self) -> Path:
        """This attempt's file; its modification time is the heartbeat."""
        return self.files.attempt(self.number)

    @property
    def first_began(self) -> float:
        """When the first attempt at the run began, in seconds since 1970."""
        began = self.store.attempt(self.key, 1).get("began")
        return float(began) if isinstance(began, (int, float)) else self.began

    def check(self) -> None:
        """Raise LostOwnershipError unless this attempt is the highest. Called before important writes."""
        atomic.refresh_file_cache(self.path.parent)
        if self.store.last_attempt(self.key) != self.number:
            raise LostOwnershipError(f"Run {self.key} was taken over from attempt {self.number}.")

    def note_start(self, step: int, repeats: int) -> None:
        """Note where the training starts.

        Args:
            step: the updates made before this attempt; 0 without a checkpoint.
            repeats: how many updates are made again because a process died after its last checkpoint.
        """
        self.check()
        self._note(start_step=step, repeats=repeats)

    def finish(self, record: RunRecord) -> RunRecord:
        """Write the record once, then the end of the attempt and the index line, and remove the checkpoint.

        Returns:
            the record on disk: `record`, or that of a process that finished the same run earlier.
        """
        ended = time.time()
        self.check()
        written = self.store.write_record(record)
        self._note(outcome={"reason": Reason.FINISHED}, ended=ended)
        self.store.note([self.key])
        return written

    def end(self, reason: Reason, message: str = "") -> None:
        """End the attempt without a record.

        Each process of the run may call this. The first reason counts: later failures are consequences of it.
        The attempt has ended when its owner says so, who may be writing when another process fails.

        Args:
            reason: STOPPED or a failure.
            message: for people, such as that of an exception.
        """
        with contextlib.suppress(LostOwnershipError, OSError):
            self.check()
            first = self.store.attempt(self.key, self.number).get("outcome")
            ended = {"ended": time.time()} if self.is_owner else {}
            self._note(outcome=first or {"reason": reason, "message": message}, **ended)

    def _note(self, **changes: Any) -> None:
        # Several processes of a run write this file: keep the fields of the others.
        noted = self.store.attempt(self.key, self.number)
        atomic.write_json(self.path, self.to_json() | noted | changes)

    def to_json(self) -> dict[str, Any]:
        """The attempt's file at first. Until it has ended it is under way, or its owner died.

        `began` and `ended` are seconds since 1970. `start_step` is the step from which the training starts;
        it is null before that, and for attempts that do not train.
        """
        return {
            "owner": self.owner.to_json(),
            "began": self.began,
            "ended": None,
            "start_step": None,
            "checkpoint_found": self.checkpoint_found,
            "repeats": 0,
            "outcome": None,
        }

    def __enter__(self) -> Attempt:
        threading.Thread(target=self._beat, daemon=True, name=f"heartbeat-{self.key}").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_beating.set()

    def _beat(self) -> None:
        while not self._stop_beating.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):
                os.utime(self.path)
