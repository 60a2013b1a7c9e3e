"""What a row of the table of models says. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelSpec:
    """One row of `SIZES`.

    `settings` are the keyword arguments of `target` ("module:Class"). `batch_norm` says that the statistics
    of a micro-batch enter the numbers: then micro-batch and world size belong to a run's key. `revision` is
    raised whenever the same settings give other numbers than before. `outside` marks a user's own model, or
    that of another package (`models/outside.py`).
    """

    name: str
    target: str
    kind: str  # "lm": tokens (B, T) -> logits (B, T, V); "image": images (B, C, H, W) -> logits (B, classes)
    settings: dict[str, Any]
    batch_norm: bool = False
    revision: int = 1
    outside: bool = False

    def fits(self, kind: str) -> bool:
        """Whether it is for tasks of this kind; a model from outside that does not say so is for all."""
        return self.kind in ("", kind)
