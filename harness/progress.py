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
        """The progress in a checkpoint."""
        return cls(**(value | {"divergence": Divergence(**value["divergence"])}))


def sound_checkpoint(path: Path, metrics: Path) -> dict[str, Any] | None:
    """What `checkpoint.load` gives, or None: then the run starts anew, with the same numbers, later.

    Args:
        path: the checkpoint; it may be missing or damaged.
        metrics: the curve, which must hold every step up to the checkpoint.
    """
    if not path.exists():
        return None
    try:
        saved = checkpoint.load(path)
    except checkpoint.CorruptCheckpointError as error:
        log.warning("%s; starting from the first step", error)
        return None
    step = saved["loop"]["step"]
    if not covers(read(metrics), step):
        log.warning("metrics.jsonl lacks steps before %d; starting from the first step", step)
        return None
    return saved
