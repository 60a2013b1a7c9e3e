"""What our runs say about a published ordering, and which of a family of verdicts stand.

delta = |ln(published ratio)| is how much better a number was said to be, and theta our gap on the same scale,
positive where it has the published sign.

Source: Benjamini and Hochberg, Controlling the false discovery rate, Journal of the Royal Statistical Society
B 57, 1995. The verdicts are those of replications that ask for size, not for sign only: Simonsohn, Small
telescopes, Psychological Science 26, 2015, without its bound at 33 % power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

DISCOVERY_RATE = 0.1  # of false ones among the verdicts of a family
LEAST_POWER = 0.5  # a scale with less can't decide a claim


class ClaimVerdict(str, Enum):
    """What an interval of theta says of a claim; the first that is true."""

    CONTRADICTS = "contradicts"  # below 0
    REPRODUCES = "reproduces"  # above delta / 2
    SMALLER = "smaller"  # below delta / 2
    AGREES = "agrees"  # above 0
    UNDECIDED = "undecided"

    @classmethod
    def of_sign(cls, theta: float) -> ClaimVerdict:
        """What the sign of a gap says that is known to be one; of a claim without a size."""
        return cls.AGREES if theta > 0 else cls.CONTRADICTS if theta < 0 else cls.UNDECIDED


def claim_verdict(low: float, high: float, delta: float) -> ClaimVerdict:
    """What the interval of theta from `low` to `high` says of a claim of size `delta`, which is positive."""
    if high < 0:
        return ClaimVerdict.CONTRADICTS
    if low > delta / 2:
        return ClaimVerdict.REPRODUCES
    if high < delta / 2:
        return ClaimVerdict.SMALLER
    return ClaimVerdict.AGREES if low > 0 else ClaimVerdict.UNDECIDED


def power_at(delta: float, variance: float, freedom: float, level: float = 0.05) -> float:
    """The probability that a two-sided t-test finds a gap of `delta`, be it with the wrong sign.

    Args:
        delta: the true gap.
        variance: of the estimated gap, positive.
        freedom: its degrees of freedom; may be infinite.
        level: of the test.
    """
    from scipy import special

    shift = abs(delta) / math.sqrt(variance)
    if math.isinf(freedom):
        limit = float(special.ndtri(1 - level / 2))
        return float(special.ndtr(shift - limit) + special.ndtr(-shift - limit))
    limit = float(special.stdtrit(freedom, 1 - level / 2))
    missed = float(special.nctdtr(freedom, shift, limit) - special.nctdtr(freedom, shift, -limit))
    return 1.0 if math.isnan(missed) else 1 - missed  # NaN for a large shift: too small for a number


def stands(p_values: Sequence[float | None], rate: float = DISCOVERY_RATE) -> list[bool]:
    """Which tests of a family stand by Benjamini and Hochberg; one without p-value (None) counts but doesn't.

    Args:
        p_values: of the whole family, which is fixed before the runs.
        rate: the expected share of false ones among those that stand.
    """
    from scipy.stats import false_discovery_control

    if not p_values:
        return []
    adjusted = false_discovery_control([1.0 if p is None else p for p in p_values])
    return [p is not None and bool(q <= rate) for p, q in zip(p_values, adjusted, strict=True)]
