"""The record of a finished run: plain values, readable without torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from htbench.harness.config import RunConfig
from htbench.harness.config.names import settings_of
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.system import seal, typed

BROKEN = "broken"  # no digest


def timestamp(seconds: float) -> str:
    """Format seconds since 1970 as ISO 8601 in UTC: "2026-01-31T12:00:00+00:00"."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunRecord:
    """The result of one run. Its curve is in `metrics.jsonl`, not here.

    Attributes:
        key: identity of the run, 12 hex digits.
        config: the resolved config as nested plain values.
        status: COMPLETED, DIVERGED (this counts as a result, not as a failure) or PRUNED.
        metrics: final metrics by name: `val_loss` (nats per token), `test_accuracy` (in [0, 1]) ...
        steps: updates made.
        useful_seconds: seconds spent in these updates, over all attempts; repeated updates count once.
        seconds_per_step: `timing["mean"]`, in seconds.
        peak_memory: peak memory of the process (CPU) or on the device (GPU), in bytes.
        cost: `parameters` of the model; `samples` and `tokens` seen in training; and what
            `harness/cost/estimate.py` counts: `flops_per_step`, `optimizer_flops_per_step`, `state_bytes`,
            `estimated_peak_memory`. These are absent where they can't be told.
        attempts: number of attempts; each is one start of the run's processes.
        environment: versions, hardware, code version, data fingerprint.
        divergence: why a run diverged, after `steps`: a `kind` of DIVERGENCES with its values.
        timing: the time of a step over all attempts (`harness/train/progress.py`); empty if not measured. It
            includes the periodic work of the optimizer, but no evaluations and no checkpoints. `mean`:
            seconds per step. `sd`: the sample standard deviation over windows of steps, absent with one
            window. `steps`: steps counted. `warmup`: steps left out at the start of each attempt. `cpu`: CPU
            seconds per step, summed over processes; for one process with one thread on a CPU it equals
            `mean`, or is less if other programs used the same core.
        began: when the first attempt began, as from `timestamp`; empty if not known.
        ended: when the record was written, in the same format.
        repeated_steps: updates made again because a process died after its last checkpoint, as far as known.
        pruned_by: the studies that pruned it. For every other study the run is unfinished and can be resumed.
        test_items, test_tokens: how many rows or images of the test split were scored, and how many targets
            they have; 0: they are not kept item by item (`harness/store/items.py`).
        test_split: how many the whole split has; more only where a task has a bound.
        items_digest: which items they are. Test metrics of runs with other ones can't be compared.
        rest: what other code has written besides, by name. It stays when the record is written again.
        digest: empty if nobody has changed the file of the record since it was written, else BROKEN, which no
            rewriting mends.
    """

    key: str
    config: dict[str, Any] = dataclasses.field(metadata=typed.LATER)  # of `RunConfig`, or of others
    status: Status
    metrics: dict[str, float | None]
    steps: int
    useful_seconds: float
    seconds_per_step: float | None
    peak_memory: int
    cost: dict[str, float]
    attempts: int
    environment: dict[str, Any]
    divergence: dict[str, Any] = dataclasses.field(default_factory=dict)
    pruned_by: list[str] = dataclasses.field(default_factory=list)
    repeated_steps: int = 0
    timing: dict[str, float] = dataclasses.field(default_factory=dict)
    began: str = ""
    ended: str = ""
    test_items: int = 0
    test_tokens: int = 0
    test_split: int = 0
    items_digest: str = ""
    rest: dict[str, Any] = dataclasses.field(default_factory=dict, metadata=typed.REST)
    digest: str = dataclasses.field(default="", compare=False)

    @property
    def settings(self) -> dict[str, Any]:
        """The config as a flat mapping of dotted names, such as `optimizer.lr`, to values."""
        return settings_of(self.config)

    @property
    def why(self) -> Note | None:
        """Why the run has not completed."""
        if self.status is Status.PRUNED:
            return Note("pruned", step=self.steps, studies=list(filter(None, self.pruned_by)))
        fields = dict(self.divergence)
        return Note(fields.pop("kind"), **fields) if fields else None

    @property
    def note(self) -> str:
        """Why the run has not completed, in words; empty if it has."""
        return str(self.why or "")

    def ends(self, study: str = "") -> bool:
        """Whether the run has ended for `study` (empty: outside of any study)."""
        return self.status is not Status.PRUNED or study in self.pruned_by

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        value: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        rest: dict[str, Any] = value.pop("rest")  # all are plain values: `asdict` would copy each
        return seal.sealed(value | rest) | ({seal.SEAL: BROKEN} if self.digest else {})

    @classmethod
    def from_json(cls, value: Any, whole: bool = False) -> RunRecord | None:
        """Read a record from a JSON value; None if it is not one: a damaged file, or somebody else's.

        Args:
            value: the value.
            whole: whether its digest has been found right.
        """
        if not isinstance(value, dict):
            return None
        record = typed.make(cls, value | {seal.SEAL: "" if whole or not seal.is_broken(value) else BROKEN})
        return record if record is not None and _is_sound(record) else None


def _is_sound(record: RunRecord) -> bool:
    """Whether the values within the mappings are those that our code works with, too."""
    config: Any = record.config
    return (
        record.status.has_ended
        and type(config) is dict
        and type(config.get("task")) is str
        and "imported" not in config  # by 0.1.0 from another trainer: our defaults do not hold for it
        and typed.fits(RunConfig, config)
        and (not record.divergence or _is_divergence(record.divergence))
        and min(record.steps, record.attempts, record.repeated_steps) >= 0
        and min(record.test_items, record.test_tokens, record.test_split) >= 0
        and all(_is_time(word) for word in (record.began, record.ended) if word)
    )


def _is_divergence(value: Mapping[str, Any]) -> bool:
    fields = DIVERGENCES.get(value["kind"]) if type(value.get("kind")) is str else None
    return fields is not None and all(
        name in value and typed.fits(kind, value[name]) for name, kind in fields.items()
    )


def _is_time(word: str) -> bool:
    try:
        return datetime.fromisoformat(word).tzinfo is not None
    except ValueError:
        return False


# Why a run may have diverged, with what is told about it (`harness/show/messages.txt`).
DIVERGENCES: dict[str, dict[str, type]] = {
    "loss_not_finite": {},
    "loss_stayed_high": {"untrained": float, "best": float, "steps": int},
    "metric_not_finite": {"metric": str},
}
