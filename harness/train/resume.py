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
    """The progress of a run. It is stored in the checkpoint as plain values.

    Attributes:
        step: updates made.
        seconds: seconds spent in these updates.
        times: statistics of the time of a step; steps of the warm-up are left out.
        divergence: state of the rule that decides whether the run has diverged.
        untrained_loss: validation loss before the first update; None if the config does not ask for it.
    """

    step: int = 0
    seconds: float = 0.0
    times: StepTimes = dataclasses.field(default_factory=StepTimes)
    divergence: Divergence = dataclasses.field(default_factory=Divergence)
    untrained_loss: float | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Progress:
        """Read the progress from a checkpoint's plain values.

        Version 0.1 stored `windows`, seconds per step of windows of unknown length. They are ignored.

        Raises:
            TypeError, KeyError: incompatible code has written the checkpoint.
        """
        kept = {name: one for name, one in value.items() if name != "windows"}
        parts = {"divergence": Divergence(**kept["divergence"]), "times": StepTimes(**kept.get("times", {}))}
        return cls(**(kept | parts))


def sound_checkpoint(path: Path, metrics: Path) -> tuple[Progress, dict[str, Any] | None]:
    """Load the checkpoint if the run can resume from it; else return a progress at step 0 and None.

    Args:
        path: the checkpoint; it may be missing or damaged.
        metrics: the curve. It must have the loss of every update up to the checkpoint.

    Returns:
        the progress, and the state that `checkpoint.load` returns.

    Raises:
        OSError: the system can't read the checkpoint now; it may be valid.
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
            if progress.divergence.untrained is None:  # version 0.1 did not store it
                progress.divergence.untrained = next((row["loss"] for row in rows if "loss" in row), None)
            return progress, saved
        log.warning("%s lacks steps before %d; starting from the first step", metrics.name, progress.step)
    return Progress(), None
