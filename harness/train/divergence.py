"""When a run counts as diverged: a result of its learning rate, not a failure.

The rule compares the loss with that of the untrained model: a run has diverged if its loss had fallen well
below that and has come back. A multiple of the best loss would not do: the loss of a language model falls by
half only, that of a memorised data set a thousandfold and may then triple without harm. The patience is a
share of the run.
"""

import math
from dataclasses import dataclass

from htbench.harness.config import DivergenceConfig
from htbench.harness.show.note import Note

LENGTH = 2000  # steps of the run for which `patience` and `smoothing` are given
LEAST = 20  # steps of patience, however short the run


@dataclass
class Divergence:
    """Watches the training loss, step by step.

    Attributes:
        smoothed: exponential average of the loss.
        best: its lowest value so far.
        steps_above: for how many steps in a row it has been near or above the untrained loss.
        untrained: the first loss, which no update has changed.
    """

    smoothed: float = math.inf
    best: float = math.inf
    steps_above: int = 0
    untrained: float | None = None

    def observe(self, loss: float, rule: DivergenceConfig, total: int) -> Note | None:
        """Update the state by the loss of one step of `total`; return why the run has diverged, if so."""
        if not math.isfinite(loss):
            return Note("loss_not_finite")
        if self.untrained is None:
            self.untrained = loss
        past = self.smoothed if math.isfinite(self.smoothed) else loss
        share = min(1.0, (1 - rule.smoothing) * max(1.0, LENGTH / total))
        self.smoothed = (1 - share) * past + share * loss
        self.best = min(self.best, self.smoothed)
        self.steps_above = self.steps_above + 1 if self._has_unlearned(self.untrained, rule) else 0
        if self.steps_above >= max(LEAST, rule.patience * total / LENGTH):
            return Note("loss_stayed_high", untrained=self.untrained, best=self.best, steps=self.steps_above)
        return None

    def _has_unlearned(self, untrained: float, rule: DivergenceConfig) -> bool:
        """Whether the loss was well below the untrained one and most of that fall is lost."""
        if self.smoothed <= rule.floor:
            return False
        fall, left = untrained - self.best, untrained - self.smoothed
        return fall > rule.below * untrained and left < fall / rule.factor
