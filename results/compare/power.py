"""How many seeds it would take to tell two rows apart."""

from __future__ import annotations

import math

from results.compare.stats import SIGNIFICANCE, Error, Sample, error_of_difference

POWER = 0.8
_MOST_SEEDS = 1000


def seeds_needed(a: Sample, b: Sample) -> int | None:
    """The number of seeds per row at which the t-test of these two rows finds their gap with power 0.8.

    The test is that of `p_value` at 5 %, two-sided, of this one pair; with a test set, that of both parts of
    the error together. The gap and the spread are taken for the true ones; with three seeds both are rough
    guesses.

    Returns:
        at least 2; None if there is no test for the two rows, if their means are equal, or if 1000 seeds
        are too few, be it because the test set is too small.
    """
    error = error_of_difference(a, b)
    gap = abs(a.mean - b.mean)
    if error is None or gap == 0 or _power(gap, error.with_seeds(_MOST_SEEDS)) < POWER:
        return None
    low, high = 1, _MOST_SEEDS  # too few; enough
    while high - low > 1:
        middle = (low + high) // 2
        enough = _power(gap, error.with_seeds(middle)) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return high


def _power(gap: float, error: Error) -> float:
    """The probability that a two-sided t-test finds a gap."""
    from scipy import special

    shift = gap / math.sqrt(error.variance)
    freedom = error.freedom
    if math.isinf(freedom):
        return float(special.ndtr(shift - special.ndtri(1 - SIGNIFICANCE / 2)))
    missed = float(special.nctdtr(freedom, shift, special.stdtrit(freedom, 1 - SIGNIFICANCE / 2)))
    return 1.0 if math.isnan(missed) else 1 - missed  # NaN for a large shift: too small for a number
