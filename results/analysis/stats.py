"""Spread over seeds: summaries, comparisons of two rows, and which row of a table may be bold.

scipy takes a second to import, so only what needs a distribution imports it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIGNIFICANCE = 0.05
_ROUNDING = 1e-9  # a relative spread below this is what rounding leaves of equal values


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
        from scipy import stats

        half = float(stats.t.ppf(1 - SIGNIFICANCE / 2, self.n - 1)) * self.std / math.sqrt(self.n)
        return self.mean - half, self.mean + half


def summarize(values: Sequence[float]) -> Summary:
    """The summary of at least one value."""
    std = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), std, len(values))


@dataclass(frozen=True)
class Sample:
    """What a row achieved on each of its seeds.

    Attributes:
        values: at least one value, by (seed, data_seed).
        test_variance: what the finite test set adds to the variance of the mean. It is the same set for all
            seeds, so more seeds do not shrink it. None if it is not known.
    """

    values: Mapping[tuple[int, int], float]
    test_variance: float | None = None

    @property
    def mean(self) -> float:
        """Of the values."""
        return statistics.fmean(self.values.values())


def p_value(a: Sample, b: Sample) -> float | None:
    """Two-sided p-value of a t-test that two rows have the same mean; None if there is no test.

    Paired by seed if both have the same seeds, else Welch's test: pairs of only some of the seeds would leave
    runs out. The variances of the finite test sets are added as if they were independent. Both rows
    saw the same test set, so this is conservative. They count with infinitely many degrees of freedom.

    There is no test for a single value, nor for values without spread if a test set's variance is missing.
    Source: Welch, The generalization of "Student's" problem when several different population variances are
    involved, Biometrika 34, 1947; degrees of freedom by Satterthwaite, 1946.
    """
    if min(len(a.values), len(b.values)) < 2:
        return None
    seeds = _seed_variances(a, b)
    if not seeds and None in (a.test_variance, b.test_variance):
        return None
    error = sum(variance for variance, _ in seeds) + (a.test_variance or 0) + (b.test_variance or 0)
    if error == 0:
        return None
    inverse = sum((variance / error) ** 2 / freedom for variance, freedom in seeds)
    from scipy import stats

    return float(
        2 * stats.t.sf(abs(a.mean - b.mean) / math.sqrt(error), 1 / inverse if inverse else math.inf)
    )


def _seed_variances(a: Sample, b: Sample) -> list[tuple[float, int]]:
    """The seeds' part in the variance of the difference, with degrees of freedom; empty without spread."""
    if a.values.keys() == b.values.keys():
        groups = [[a.values[seed] - b.values[seed] for seed in a.values]]
    else:
        groups = [list(a.values.values()), list(b.values.values())]
    largest = max(abs(value) for sample in (a, b) for value in sample.values.values())
    if all(statistics.stdev(group) <= _ROUNDING * largest for group in groups):
        return []
    return [(statistics.variance(group) / len(group), len(group) - 1) for group in groups]


def best_rows(rows: Sequence[Sample | None], *, higher_is_better: bool, digits: int) -> list[bool]:
    """Which rows may be bold: the best mean if it is significantly better than every other row, else none.

    Args:
        rows: None is a row without values; any row with values is better.
        higher_is_better: the direction.
        digits: decimals printed; equal prints are a tie whatever the test says.
    """
    known = {index: row for index, row in enumerate(rows) if row is not None}
    none_bold = [False] * len(rows)
    if len(known) < 2:
        return none_bold
    sign = -1 if higher_is_better else 1
    best = min(known, key=lambda index: sign * known[index].mean)
    rivals = [row for index, row in known.items() if index != best]
    if any(f"{rival.mean:.{digits}f}" == f"{known[best].mean:.{digits}f}" for rival in rivals):
        return none_bold
    if not all_rejected([p_value(known[best], rival) for rival in rivals]):
        return none_bold
    return [index == best for index in range(len(rows))]


def all_rejected(p_values: Sequence[float | None]) -> bool:
    """Whether Holm's procedure rejects every hypothesis at 5 %; a test without verdict rejects nothing.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 1979.
    """
    ranked = sorted(1.0 if p is None else p for p in p_values)
    return all(p < SIGNIFICANCE / (len(ranked) - i) for i, p in enumerate(ranked))
