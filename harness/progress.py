"""Where a run stands, and from which step it can go on."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

from harness import checkpoint
from harness.divergence import Divergence
from harness.metrics import covers, read

log = logging.getLogger("htbench")


@dataclasses.dataclass
class Progress:
    """Where a run stands: plain values that go into the checkpoint.

    Attributes:
        step: updates made.
        seconds: time spent in them.
        windows: mean seconds per step of each look at the loss.
        divergence: what the divergence rule has seen.
        untrained_loss: validation loss before the first update, if asked for.
    """

    step: int = 0
    seconds: float = 0.0
    windows: list[float] = dataclasses.field(default_factory=list)
    divergence: Divergence = dataclasses.field(default_factory=Divergence)
    untrained_loss: float | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Progress:
        """The progress in a checkpoint. Raises TypeError or KeyError if other code has written it."""
        return cls(**(value | {"divergence": Divergence(**value["divergence"])}))


def sound_checkpoint(path: Path, metrics: Path) -> tuple[Progress, dict[str, Any] | None]:
    """How far one can go on from, and what `checkpoint.load` gives; without a checkpoint from the beginning.

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
        if covers(read(metrics), progress.step):
            return progress, saved
        log.warning("metrics.jsonl lacks steps before %d; starting from the first step", progress.step)
    return Progress(), None
