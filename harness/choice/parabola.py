"""What a row could reach at the best of its learning rates: a parabola through the losses of those it tried.

Losses over the logarithm of a rate are nearly a parabola around their minimum, L = L* + c (log2 lr - x)^2.
With three octaves of rates the fit says how low L* may be, also where the best rate is the last one tried.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from htbench.harness.choice.rates import apart

OCTAVES = 3.0  # the least span of the rates of a fit
RATES = 4  # the least number of rates of a fit: a parabola goes through any three
_LEVEL = 0.05
_FARTHEST = 100.0  # octaves to a minimum; what is nearly a straight line has none
_ROUNDING = 1e-9  # octaves


@dataclass(frozen=True)
class Parabola:
    """A fit that has a minimum.

    Attributes:
        lowest: L*.
        rate: where it is.
        curvature: c, per octave squared.
        error: standard error of `lowest`.
        freedom: its degrees of freedom.
    """

    lowest: float
    rate: float
    curvature: float
    error: float
    freedom: float

    @property
    def least(self) -> float:
        """The lower end of the one-sided 95 % interval of L*."""
        from scipy import special

        return self.lowest - float(special.stdtrit(self.freedom, 1 - _LEVEL)) * self.error


def are_enough(log2_rates: Collection[float]) -> bool:
    """Whether rates are enough for a fit: four that count, over three octaves."""
    counted = len(apart(2.0**rate for rate in log2_rates))
    return counted >= RATES and max(log2_rates) - min(log2_rates) >= OCTAVES - _ROUNDING


def fit(losses: Mapping[float, float]) -> Parabola | None:
    """The parabola of least squares through losses by their rate.

    Args:
        losses: finite, by positive rate, with all else alike.

    Returns:
        None if the rates are not enough, or if the losses have no minimum.
    """
    return minimum(losses) if are_enough([math.log2(rate) for rate in losses]) else None


def minimum(losses: Mapping[float, float]) -> Parabola | None:
    """As `fit`, of four rates or more, however near to each other."""
    import numpy as np

    x = np.log2(list(losses))
    middle = x.mean()
    (curvature, slope, level), covariance = np.polyfit(x - middle, list(losses.values()), 2, cov=True)
    if curvature <= 0 or abs(at := -slope / (2 * curvature)) > _FARTHEST:
        return None
    # At the minimum L* does not depend on where it is, so its error is that of the fit there.
    point = np.array([at**2, at, 1.0])
    return Parabola(
        lowest=float(level - curvature * at**2),
        rate=float(2 ** (at + middle)),
        curvature=float(curvature),
        error=math.sqrt(point @ covariance @ point),
        freedom=float(len(x) - 3),
    )
