"""Spread over seeds: summaries, Welch's test, and which row of a table may be bold.

Standard library only: Student's distribution is an incomplete beta function (Abramowitz and Stegun 26.7.1 and
26.5.8), and importing scipy would cost more time than a whole table.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Summary:
    """Mean and spread of one figure over seeds.

    Attributes:
        mean: of the values.
        std: sample standard deviation (ddof=1); None for a single value, which has no spread.
        n: number of values.
        interval: 95 % interval of the mean by Student's t; None for a single value.
    """

    mean: float
    std: float | None
    n: int
    interval: tuple[float, float] | None


def summarize(values: Sequence[float]) -> Summary:
    """The summary of at least one value."""
    n, mean = len(values), statistics.fmean(values)
    if n == 1:
        return Summary(mean, None, n, None)
    std = statistics.stdev(values)
    half = t_quantile(1 - SIGNIFICANCE / 2, n - 1) * std / math.sqrt(n)
    return Summary(mean, std, n, (mean - half, mean + half))


def welch(a: Summary, b: Summary) -> float | None:
    """Two-sided p-value of Welch's test that two groups have the same mean; None if one has a single value.

    Two groups without any spread differ for certain (p = 0) or not at all (p = 1).
    Source: Welch, The generalization of "Student's" problem when several different population variances are
    involved, Biometrika 34, 1947; degrees of freedom by Satterthwaite, 1946.
    """
    if a.std is None or b.std is None:
        return None
    share_a, share_b = a.std**2 / a.n, b.std**2 / b.n
    error = share_a + share_b
    if error == 0:
        return float(a.mean == b.mean)
    freedom = error**2 / (share_a**2 / (a.n - 1) + share_b**2 / (b.n - 1))
    return t_two_sided((a.mean - b.mean) / math.sqrt(error), freedom)


def best_rows(rows: Sequence[Summary | None], *, higher_is_better: bool, digits: int) -> list[bool]:
    """Which rows may be bold: the best mean if it beats the runner-up beyond doubt, else nobody.

    Args:
        rows: one group each; None is a row without figure.
        higher_is_better: the direction.
        digits: decimals printed; equal prints are a tie whatever the test says.
    """
    sign = -1 if higher_is_better else 1
    ranked = sorted((sign * row.mean, index) for index, row in enumerate(rows) if row is not None)
    nobody = [False] * len(rows)
    if len(ranked) < 2:
        return nobody
    first, second = ranked[0][1], ranked[1][1]
    best, runner_up = rows[first], rows[second]
    assert best is not None and runner_up is not None
    p = welch(best, runner_up)
    if p is None or p >= SIGNIFICANCE or f"{best.mean:.{digits}f}" == f"{runner_up.mean:.{digits}f}":
        return nobody
    return [index == first for index in range(len(rows))]


# --- Student's t ---


def t_two_sided(t: float, freedom: float) -> float:
    """Probability that Student's t with `freedom` degrees of freedom lies further from zero than `t`."""
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def t_quantile(probability: float, freedom: float) -> float:
    """The t below which Student's t falls with a probability in (0.5, 1), by bisection."""
    tail = 2 * (1 - probability)
    low, high = 0.0, 1.0
    while t_two_sided(high, freedom) > tail:
        high *= 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if t_two_sided(middle, freedom) > tail else (low, middle)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - _incomplete_beta(b, a, 1 - x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(scale) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), from the inside out; far fewer than 100 terms matter on the side used."""
    value = 1.0
    for j in range(100, 0, -1):
        m = j // 2
        if j % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        value = 1 + d / value
    return value
