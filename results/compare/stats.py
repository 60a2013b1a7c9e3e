"""Spread over seeds: summaries, and the comparison of two rows by themselves.

Only what needs a distribution imports scipy. Its functions in `special` are those behind `stats`, without a
second of import and a millisecond of checks per call.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

SIGNIFICANCE = 0.05
_HUGE = 2.0**500  # squares of more than this are no floats any more; a perplexity may come near
MIN_SEEDS = 3  # fewer than this give no verdict: two values say almost nothing about their spread
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
        from scipy import special

        half = float(special.stdtrit(self.n - 1, 1 - SIGNIFICANCE / 2)) * self.std / math.sqrt(self.n)
        return self.mean - half, self.mean + half


def summarize(values: Sequence[float]) -> Summary:
    """The summary of at least one value."""
    scale = 1.0 if max(map(abs, values)) < _HUGE else _HUGE  # a power of two: no digit changes
    scaled = [value / scale for value in values]
    std = statistics.stdev(scaled) * scale if len(values) > 1 else None
    return Summary(statistics.fmean(scaled) * scale, std, len(values))


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


@dataclass(frozen=True)
class Error:
    """The variance of the difference of two rows' means.

    Attributes:
        groups: the seeds' part: of one difference per shared seed, or of the values of each row; each is the
            variance of one value and the number of values. Empty without spread.
        test_variance: the part of the finite test sets.
    """

    groups: tuple[tuple[float, int], ...]
    test_variance: float

    @property
    def variance(self) -> float:
        """Of the difference."""
        return sum(variance / n for variance, n in self.groups) + self.test_variance

    @property
    def freedom(self) -> float:
        """Degrees of freedom, by Satterthwaite. A test set's variance counts as known."""
        total = self.variance
        inverse = sum((variance / n / total) ** 2 / (n - 1) for variance, n in self.groups)
        return 1 / inverse if inverse else math.inf


def error_of_difference(a: Sample, b: Sample) -> Error | None:
    """The error of the difference of two rows, as `p_value` takes it; None if there is no test."""
    if min(len(a.values), len(b.values)) < 2:
        return None
    groups = _groups(a, b)
    if not groups and None in (a.test_variance, b.test_variance):
        return None
    error = Error(groups, (a.test_variance or 0) + (b.test_variance or 0))
    return error if error.variance > 0 else None


def p_value(a: Sample, b: Sample) -> float | None:
    """Two-sided p-value of a t-test that two rows have the same mean; None if there is no test.

    Paired by seed if both have the same seeds, else Welch's test: pairs of only some of the seeds would leave
    runs out. The variances of the finite test sets are added as if they were independent. Both rows
    saw the same test set, so this is conservative. They count with infinitely many degrees of freedom.

    With a test set's variance, the p-value is at least that of the seeds alone. Otherwise three seeds that
    happen to lie close together would count as proof: their spread would be small beside the variance that is
    taken for known, and the degrees of freedom many. One optimizer under two names would then differ at
    p < 0.001 in 17 of 1000 tables, in place of 1 (simulated; see tests/results/compare/test_ties.py).

    There is no test for a single value, nor for values without spread if a test set's variance is missing.
    Source: Welch, The generalization of "Student's" problem when several different population variances are
    involved, Biometrika 34, 1947; degrees of freedom by Satterthwaite, 1946.
    """
    error = error_of_difference(a, b)
    if error is None:
        return None
    gap = abs(a.mean - b.mean)
    both = {error, replace(error, test_variance=0.0)}
    return max(_p_value(gap, one) for one in both if one.variance > 0)


def _p_value(gap: float, error: Error) -> float:
    from scipy import special

    t = -gap / math.sqrt(error.variance)
    return float(2 * (special.ndtr(t) if math.isinf(error.freedom) else special.stdtr(error.freedom, t)))


def is_paired(a: Sample, b: Sample) -> bool:
    """Whether two rows have the same seeds, so that they are compared in pairs."""
    return a.values.keys() == b.values.keys()


def _groups(a: Sample, b: Sample) -> tuple[tuple[float, int], ...]:
    if is_paired(a, b):
        groups = [[a.values[seed] - b.values[seed] for seed in a.values]]
    else:
        groups = [list(a.values.values()), list(b.values.values())]
    largest = max(abs(value) for sample in (a, b) for value in sample.values.values())
    variances = [_variance(group) for group in groups]
    if all(math.sqrt(variance) <= _ROUNDING * largest for variance in variances):
        return ()
    return tuple((variance, len(group)) for variance, group in zip(variances, groups, strict=True))


def _variance(values: Sequence[float]) -> float:
    """As `statistics.variance`, rounded once, in a tenth of its time: in whole numbers of the finest unit."""
    ratios = [value.as_integer_ratio() for value in values]
    unit = max(denominator for _, denominator in ratios)  # all are powers of two
    whole = [numerator * (unit // denominator) for numerator, denominator in ratios]
    n = len(values)
    return (n * sum(x * x for x in whole) - sum(whole) ** 2) / (n * (n - 1) * unit * unit)
