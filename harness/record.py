"""What a finished run leaves behind: plain values, readable without torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["completed", "diverged", "pruned"]


@dataclass(frozen=True)
class RunRecord:
    """One run's result. The curves stay in `metrics.jsonl`.

    Attributes:
        key: identity of the run, 12 hex digits.
        config: the resolved config as nested plain values.
        status: `completed`, `diverged` (a result, too) or `pruned`.
        metrics: final figures by name: `val_loss` (nats per token), `test_accuracy` (in [0, 1]) ...
        steps: updates made.
        useful_seconds: time in training steps that count, over all attempts, in seconds.
        seconds_per_step: median time of one step, in seconds.
        peak_memory: greatest memory of the process (CPU) or the device (GPU), in bytes.
        cost: parameters, tokens or images seen.
        attempts: processes that it took.
        environment: versions, hardware, code version, data fingerprint.
        note: for a diverged or pruned run, what was seen and when.
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

    def ends(self, study: str = "") -> bool:
        """Whether this is the end of the run for `study` (empty: for somebody who is no study)."""
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
