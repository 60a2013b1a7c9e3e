"""The record of a run that another trainer made. Torch-free.

Its config says `imported: NAME`, and only what the file said: no default of ours is written in. Its key
covers this config, so that it can never be the key of a run of ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.config import Value
from harness.exchange.metrics import HELD_OUT
from harness.show.status import Status
from harness.store.record import IMPORTED, RUN, RunRecord
from harness.tasks import OF_OTHERS


@dataclass(frozen=True)
class ForeignRun:
    """One run as a file tells it.

    Attributes:
        source: the name under which the file was imported; also that of the sweep.
        run: their word for the run, unique within task, model and optimizer; empty if they have none, and
            then seed and settings tell the runs apart.
        task, model, optimizer: words; `optimizer` is what is compared, a name or a result.
        metric: what is reported, without its split: "loss", "accuracy" (a share in [0, 1]).
        higher_is_better: the direction of the metric.
        curve: rows of a step and what was measured after it: {"step": 125, "loss": 4.7, "val_loss": 4.66},
            `loss` being that of the training. A value that is not finite is None.
        seed: None if the file does not tell it.
        settings: what else it says of the run, by dotted names: "optimizer.lr", "batch_size" ...
        hardware: the GPU or machine; empty if not told.
        seconds_per_step: None if not told.
        note: what a reader should know, such as doubled steps of its log.
    """

    source: str
    run: str
    task: str
    model: str
    optimizer: str
    metric: str
    higher_is_better: bool
    curve: Sequence[Mapping[str, float | None]]
    seed: int | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    hardware: str = ""
    seconds_per_step: float | None = None
    note: str = ""


def record_of(run: ForeignRun) -> RunRecord:
    """The record: completed, or diverged if the metric is not finite after the last step.

    `run.curve` is sorted by step and has a value or None of `val_<metric>` in its last row.
    """
    last = run.curve[-1]
    metrics = {name: value for name, value in last.items() if name.startswith(HELD_OUT)}
    steps = int(last["step"] or 0)
    reported = f"val_{run.metric}"
    finite = metrics.get(reported) is not None
    config = config_of(run)
    return RunRecord(
        key=key_of(config),
        config=config,
        status=Status.COMPLETED if finite else Status.DIVERGED,
        metrics=metrics,
        steps=steps,
        useful_seconds=steps * (run.seconds_per_step or 0.0),
        seconds_per_step=run.seconds_per_step,
        peak_memory=0,
        cost={},
        attempts=1,
        environment=_environment(run),
        divergence={} if finite else {"kind": "metric_not_finite", "metric": reported},
        remark=run.note,
    )


def config_of(run: ForeignRun) -> dict[str, Any]:
    """The nested config: what the file says of the run, with empty words for what we would know of ours."""
    config: dict[str, Any] = {
        IMPORTED: run.source,
        RUN: run.run,
        "task": run.task,
        "model": run.model,
        "optimizer": {"name": run.optimizer},
        "seed": run.seed,
        "data_seed": run.seed,
        "replica": "",
        "data_fingerprint": "",
    }
    for name, value in sorted(run.settings.items()):
        group, _, field_name = name.rpartition(".")
        place = config.setdefault(group, {}) if group else config
        place[field_name] = value
    return config


def key_of(config: Mapping[str, Any]) -> str:
    """The first 12 hex digits of the SHA-256 of the config's canonical JSON."""
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _environment(run: ForeignRun) -> dict[str, Any]:
    task = {"kind": OF_OTHERS, "metric": run.metric, "higher_is_better": run.higher_is_better}
    return {"task": task, **({"gpu": run.hardware} if run.hardware else {})}
