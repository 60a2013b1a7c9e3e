"""What a row could reach at the best of its learning rates: a parabola through the losses of those it tried.

Losses over the logarithm of a rate are nearly a parabola around their minimum, L = L* + c (log2 lr - x)^2.
With three octaves of rates the fit says how low L* may be, also where the best rate is the last one tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

OCTAVES = 3.0  # the least span of the rates of a fit
RATES = 4  # the least number of rates of a fit: a parabola goes through any three
_LEVEL = 0.05


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


def fit(losses: Mapping[float, float]) -> Parabola | None:
    """The parabola of least squares through losses by their rate.

    Args:
        losses: finite, by positive rate, with all else alike.

    Returns:
        None with fewer than four rates or three octaves, or if the losses have no minimum.
    """
    rates = sorted(losses)
    if len(rates) < RATES or math.log2(rates[-1] / rates[0]) < OCTAVES:
        return None
    import numpy as np

    x = np.log2(rates)
    middle = x.mean()
    design = np.stack([np.ones(len(x)), x - middle, (x - middle) ** 2], axis=1)
    values = np.array([losses[rate] for rate in rates])
    inverse = np.linalg.inv(design.T @ design)
    level, slope, curvature = inverse @ design.T @ values
    if curvature <= 0:
        return None
    at = -slope / (2 * curvature)
    freedom = len(rates) - 3
    variance = ((values - design @ [level, slope, curvature]) ** 2).sum() / freedom
    # At the minimum L* does not depend on where it is, so its error is that of the fit there.
    point = np.array([1.0, at, at**2])
    error = math.sqrt(variance * (point @ inverse @ point))
    return Parabola(
        float(level - curvature * at**2), float(2 ** (at + middle)), float(curvature), error, float(freedom)
    )
