"""The progress of a run, and the step from which it can resume."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

from harness.store.curve import covers, read
from harness.train import checkpoint
from harness.train.divergence import Divergence
from harness.train.timing import StepTimes

log = logging.getLogger("htbench")


@dataclasses.dataclass
class Progress:
    """The progress of a run: plain values that go into the checkpoint.

    Attributes:
        step: updates made.
        seconds: time spent in them.
        times: the steps that count for the time of a step.
        divergence: state of the divergence rule.
        untrained_loss: validation loss before the first update; None if the config does not ask for it.
    """

    step: int = 0
    seconds: float = 0.0
    times: StepTimes = dataclasses.field(default_factory=StepTimes)
    divergence: Divergence = dataclasses.field(default_factory=Divergence)
    untrained_loss: float | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Progress:
        """The progress in a checkpoint. Raises TypeError or KeyError if incompatible code has written it.

        Version 0.1 noted `windows`, the seconds per step of windows of unknown lengths: they are not counted.
        """
        kept = {name: one for name, one in value.items() if name != "windows"}
        parts = {"divergence": Divergence(**kept["divergence"]), "times": StepTimes(**kept.get("times", {}))}
        return cls(**(kept | parts))


def sound_checkpoint(path: Path, metrics: Path) -> tuple[Progress, dict[str, Any] | None]:
    """The progress in the checkpoint and what `checkpoint.load` returns; without one, step 0 and None.

    Args:
        path: the checkpoint; it may be missing or damaged.
        metrics: the curve, which must hold every step up to the checkpoint.
    """
    if not path.exists():
        return Progress(), None
    try:
        saved = checkpoint.load(path)
        progress = Progress.from_json(saved["loop"])
    except checkpoint.UnusableCheckpointError as error:
        log.warning("%s; starting from the first step", error)
    except (TypeError, KeyError) as error:
        log.warning("%s was written by other code (%s); starting from the first step", path.name, error)
    else:
        rows = read(metrics)
        if covers(rows, progress.step):
            if progress.divergence.untrained is None:  # version 0.1 did not note it
                progress.divergence.untrained = next((row["loss"] for row in rows if "loss" in row), None)
            return progress, saved
        log.warning("%s lacks steps before %d; starting from the first step", metrics.name, progress.step)
    return Progress(), None
