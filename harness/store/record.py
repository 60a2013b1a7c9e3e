"""The record of a finished run: plain values, readable without torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from harness.config.names import settings_of

Status = Literal["completed", "diverged", "pruned"]


def timestamp(seconds: float) -> str:
    """A time since 1970 as the UTC time of ISO 8601, to the second: "2026-01-31T12:00:00+00:00"."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunRecord:
    """One run's result. The curves stay in `metrics.jsonl`.

    Attributes:
        key: identity of the run, 12 hex digits.
        config: the resolved config as nested plain values.
        status: `completed`, `diverged` (a result, too) or `pruned`.
        metrics: final metrics by name: `val_loss` (nats per token), `test_accuracy` (in [0, 1]) ...
        steps: updates made.
        useful_seconds: time in training steps that count, over all attempts, in seconds.
        seconds_per_step: `timing["mean"]`, in seconds; in records of version 0.1 a median over windows.
        peak_memory: greatest memory of the process (CPU) or the device (GPU), in bytes.
        cost: parameters, tokens or images seen.
        attempts: processes that it took.
        environment: versions, hardware, code version, data fingerprint.
        note: why and when a run diverged or was pruned.
        timing: seconds per step over all attempts, without evaluations and checkpoints, with the periodic
            work of the optimizer: `mean`; `sd`, the sample standard deviation between windows of steps (none
            of a single one); `steps`, how many were counted; `warmup`, how many were left out when each
            process began (`harness/train/timing.py`); `cpu`, CPU seconds per step of all processes. On a CPU,
            one process with one thread has `cpu` = `mean`, less if it shared its core. Empty: not measured.
        began: when the first attempt began, in UTC as ISO 8601 with seconds; empty if not known.
        ended: when the record was written, likewise.
        repeated_steps: updates made again because a process died after its last checkpoint, as far as known.
        pruned_by: the studies that pruned it. For anyone else it is unfinished, to be gone on with.
    """

    key: str
    config: dict[str, Any]
    status: Status
    metrics: dict[str, float | None]
    steps: int
    useful_seconds: float
    seconds_per_step: float | None
    peak_memory: int
    cost: dict[str, float]
    attempts: int
    environment: dict[str, Any]
    note: str = ""
    pruned_by: list[str] = dataclasses.field(default_factory=list)
    repeated_steps: int = 0
    timing: dict[str, float] = dataclasses.field(default_factory=dict)
    began: str = ""
    ended: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The config by the dotted names that people use."""
        return settings_of(self.config)

    def ends(self, study: str = "") -> bool:
        """Whether the run has ended for `study` (empty: outside of any study)."""
        return self.status != "pruned" or study in self.pruned_by

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> RunRecord | None:
        """The record in a JSON object, or None if it is not one (a torn or foreign file)."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(value, dict):
            return None
        try:
            return cls(**{name: value[name] for name in names & value.keys()})
        except TypeError:
            return None
