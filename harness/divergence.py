"""When a run counts as diverged: a result of its learning rate, not a failure."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from harness.config import DivergenceConfig


@dataclass
class Divergence:
    """Watches the training loss, step by step.

    Attributes:
        smoothed: exponential average of the loss.
        best: its lowest value so far.
        steps_above: for how many steps in a row it has been above `factor` times the best.
    """

    smoothed: float = math.inf
    best: float = math.inf
    steps_above: int = 0

    def observe(self, loss: float, rule: DivergenceConfig) -> str:
        """Take in the loss of one step; say what is wrong if the run has diverged, else an empty string."""
        if not math.isfinite(loss):
            return "the loss was not finite"
        past = self.smoothed if math.isfinite(self.smoothed) else loss
        self.smoothed = rule.smoothing * past + (1 - rule.smoothing) * loss
        self.best = min(self.best, self.smoothed)
        self.steps_above = self.steps_above + 1 if self.smoothed > rule.factor * self.best else 0
        if self.steps_above >= rule.patience:
            return (
                f"the smoothed loss stayed above {rule.factor:g} x its best ({self.best:.4g}) "
                f"for {rule.patience} steps"
            )
        return ""

    def to_json(self) -> dict[str, Any]:
        """The state as plain values, for the checkpoint."""
        return asdict(self)
