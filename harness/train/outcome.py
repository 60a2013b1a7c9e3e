"""What a run leaves: its record, with the metrics, what it took, and how it was made."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from typing import Any

from harness import tasks
from harness.cost import kept
from harness.parallel import device
from harness.show.note import Note
from harness.show.status import Status
from harness.store import Attempt
from harness.store.curve import finite
from harness.store.layout import cache_folder
from harness.store.record import RunRecord, timestamp
from harness.system import environment
from harness.train import timing
from harness.train.learner import Learner
from harness.train.resume import Progress


def record(
    attempt: Attempt,
    learner: Learner,
    progress: Progress,
    values: Mapping[str, float],
    *,
    status: Status,
    diverged: Note | None = None,
    study: str = "",
) -> RunRecord:
    """The record of a run that has ended.

    Args:
        attempt: the right to work on the run.
        learner: model and optimizer, as they are at the end.
        progress: how far the run has come.
        values: metrics by their names.
        status: how it ended.
        diverged: why it has diverged.
        study: that has pruned it.
    """
    config = learner.config
    times = progress.times.summary(timing.warm_up(learner.total))
    return RunRecord(
        key=attempt.key,
        config=json.loads(json.dumps(dataclasses.asdict(config))),  # as it is read again: lists, no tuples
        status=status,
        metrics=finite(values),
        steps=progress.step,
        useful_seconds=progress.seconds,
        seconds_per_step=times.get("mean"),
        timing=times,
        peak_memory=device.peak_memory(learner.device.type),
        cost=_cost(attempt, learner, progress),
        attempts=attempt.number,
        repeated_steps=attempt.store.repeated_steps(attempt.key),
        environment=_environment(learner),
        began=timestamp(attempt.first_began),
        ended=timestamp(time.time()),
        divergence={} if diverged is None else {"kind": diverged.kind, **diverged.fields},
        pruned_by=[study] if study else [],
    )


def _cost(attempt: Attempt, learner: Learner, progress: Progress) -> dict[str, float]:
    """What is counted: of this run, and of all runs of its class."""
    config = learner.config
    counted = {
        "parameters": sum(p.numel() for p in learner.model.parameters()),
        "samples": progress.step * config.batch_size,
        "tokens": progress.step * config.batch_size * (config.seq_len or 0),
    }
    return counted | kept.for_record(config, cache_folder(attempt.store.root), learner.device.type)


def _environment(learner: Learner) -> dict[str, Any]:
    config = learner.config
    found = environment.describe(learner.device.type, config.data_fingerprint, learner.group.size)
    found |= tasks.described(config.task) | {"threads": config.threads, "compile": config.compile}
    if learner.halved:  # otherwise the config says it
        found["micro_batch"] = learner.micro_batch
    return found
