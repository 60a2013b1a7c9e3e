"""The studentised range of k means: how far the best and the worst of equal rows come apart by chance.

Everything is told as t = range / (sqrt(2) s), the t of the two outermost rows, where s is the standard error
of one of them: for two rows it is Student's t, for more it pays for the choice among all their pairs.

    P(T <= t) = E_s[P(R <= sqrt(2) t s)],  df s^2 ~ chi^2_df
    P(R <= w) = k int phi(z) (Phi(z) - Phi(z - w))^(k-1) dz

Source: Tukey, The problem of multiple comparisons, 1953; Copenhaver and Holland, Computation of the
distribution of the maximum studentized range statistic, Journal of Statistical Computation and Simulation 30,
1988. `scipy.stats.studentized_range` is the same law, at a hundred times the time, and the tests' oracle.
"""

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"

_LEAST_FREEDOM = 0.5  # fewer degrees of freedom than this are no estimate
_WIDEST = 14.0  # no range of normal values is wider, to the precision of a float


@functools.cache
def _range_law(k: int) -> Callable[[Array], Array]:
    """P(R <= w) of k standard normal values."""
    from scipy import special

    z, widths = np.linspace(-9, 9, 181), np.linspace(0, _WIDEST, 351)
    inside = (special.ndtr(z) - special.ndtr(z - widths[:, None])) ** (k - 1)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    law = _draw_spline(widths, k * (inside * density).sum(axis=1) * (z[1] - z[0]))
    return lambda w: np.clip(law(np.minimum(w, _WIDEST)), 0, 1)


def _draw_spline(x: Array, y: Array) -> Callable[[Array], Array]:
    """The cubic spline through some points: `scipy.interpolate.CubicSpline` without a fifth of a second.

    A sixth of its second derivatives makes the first one continuous; the first two pieces are one cubic ("not
    a knot"), and so are the last two.
    """
    h = np.diff(x)
    slopes = np.diff(y) / h
    system = np.diag([0, *(2 * (h[1:] + h[:-1])), 0]) + np.diag([*h[:-1], 0], -1) + np.diag([0, *h[1:]], 1)
    system[0, :3], system[-1, -3:] = [h[1], -h[0] - h[1], h[0]], [h[-1], -h[-1] - h[-2], h[-2]]
    bends = np.linalg.solve(system, [0, *np.diff(slopes), 0])
    begins = slopes - h * (2 * bends[:-1] + bends[1:])
    pieces = np.array([np.diff(bends) / h, 3 * bends[:-1], begins, y[:-1]])

    def law(at: Array) -> Array:
        piece = np.searchsorted(x[1:-1], at)
        return np.polyval(pieces[:, piece], at - x[piece])

    return law


@functools.cache
def nodes() -> tuple[Array, Array]:
    """Probabilities at which the law of s is taken, and their weights; close to 0 they are denser."""
    x, weights = np.polynomial.legendre.leggauss(48)
    u = (x + 1) / 2
    return u**3, weights / 2 * 3 * u**2


def scales_of(freedom: Array) -> Array:
    """The values of s at the nodes for some degrees of freedom, one more axis; 1 where they are infinite."""
    from scipy import special

    half = np.maximum(freedom, _LEAST_FREEDOM)[..., None] / 2
    is_finite, (u, _) = np.isfinite(half), nodes()
    finite = np.where(is_finite, half, 1.0)
    scales: Array = np.where(is_finite, np.sqrt(special.gammaincinv(finite, u) / finite), 1.0)
    return scales


def _exceeding(t: Array, k: int, scales: Array) -> Array:
    _, weights = nodes()
    return np.clip(1 - _range_law(k)(math.sqrt(2) * np.abs(t)[..., None] * scales) @ weights, 0, 1)


def p_value(t: Array, k: int, freedom: Array) -> Array:
    """The probability that the outermost two of k equal rows are at least t apart.

    Args:
        t: gaps over their standard errors.
        k: rows, at least 2.
        freedom: degrees of freedom of each standard error; may be infinite.
    """
    return _exceeding(t, k, scales_of(freedom))


@functools.cache
def _critical(k: int, level: float) -> Callable[[Array], Array]:
    """The logarithm of the critical t by 1 / freedom; smooth, so that a few values give all."""
    places = np.linspace(0, 1, 17) ** 1.5 / _LEAST_FREEDOM
    scales = scales_of(np.array([math.inf, *(1 / places[1:])]))
    low, high = np.full(len(places), -3.0), np.full(len(places), 12.0)
    for _ in range(50):  # halves the ends to the precision of a float, all places at once
        middle = (low + high) / 2
        is_below = _exceeding(np.exp(middle), k, scales) > level
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return _draw_spline(places, low)


def critical(k: int, freedom: Array, level: float) -> Array:
    """The t that the outermost two of k equal rows exceed with probability `level`.

    Args:
        k: rows, at least 2.
        freedom: degrees of freedom of each standard error; may be infinite.
        level: such as .05.
    """
    return np.exp(_critical(k, round(level, 12))(1 / np.maximum(freedom, _LEAST_FREEDOM)))
