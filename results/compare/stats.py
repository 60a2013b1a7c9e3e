"""Spread over seeds.

Only what needs a distribution imports scipy. Its functions in `special` are those behind `stats`, without a
second of import and a millisecond of checks per call.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from htbench.harness.choice.winner import MIN_SEEDS as MIN_SEEDS

SIGNIFICANCE = 0.05
_HUGE = 2.0**500  # squares of more than this are no floats any more; a perplexity may come near


@dataclass(frozen=True)
class Summary:
    """Mean and spread of one metric over seeds.

    Attributes:
        mean: of the values.
        std: sample standard deviation (ddof=1); None for a single value, which has no spread.
        n: number of values.
    """

    mean: float
    std: float | None
    n: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean by Student's t; None for a single value."""
        if self.std is None:
            return None
        from scipy import special

        half = float(special.stdtrit(self.n - 1, 1 - SIGNIFICANCE / 2)) * self.std / math.sqrt(self.n)
        return self.mean - half, self.mean + half


def summarize(values: Sequence[float]) -> Summary:
    """The summary of at least one value."""
    scale = 1.0 if max(map(abs, values)) < _HUGE else _HUGE  # a power of two: no digit changes
    scaled = [value / scale for value in values]
    std = statistics.stdev(scaled) * scale if len(values) > 1 else None
    return Summary(statistics.fmean(scaled) * scale, std, len(values))
