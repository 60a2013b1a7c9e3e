"""The error of a finite test set: two rows compared on the same windows of text, or on the same images.

More seeds do not shrink it, for all of them see the same test set. The two rows see it together, so what is
hard for both cancels; and what belongs to one document varies together, so documents are what is counted.

Right answers are counted exactly, by McNemar's test over the items that only one row has right: 100 % against
98.66 % of 299 are 4 to 0, p = .125, where Wald's variance of 100 % would be zero.

Source: McNemar, Note on the sampling error of the difference between correlated proportions, Psychometrika
12, 1947; Clopper and Pearson, Biometrika 26, 1934, for the interval; Miller, Adding error bars to evals,
arXiv:2411.00640, 2024, for paired and clustered errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from htbench.results.compare.ranges import Array


@dataclass(frozen=True, eq=False)
class Items:
    """What a row achieved on each item of the test split.

    Attributes:
        sums: by item, or runs by items: the summed loss of a window or document, or 1 for a right answer.
        weights: by item: its tokens; 1 for an answer.
        clusters: by item: the document that it belongs to; an image belongs to itself.
        total: how many items they are, if each of these is a sum of several.
    """

    sums: Array
    weights: Array
    clusters: NDArray[np.int64]
    total: int = 0

    @property
    def mean_sums(self) -> Array:
        """By item, the mean over runs."""
        return self.sums if self.sums.ndim == 1 else self.sums.mean(axis=0)


def paired_variance(a: Items, b: Items) -> tuple[float, int]:
    """The variance of the difference of two rows' means over the same items, and the number of documents.

    The noise of few runs on single items is in it, too, so it is rather too large.

    Raises:
        ValueError: the rows were not scored on the same items.
    """
    if not np.array_equal(a.weights, b.weights) or not np.array_equal(a.clusters, b.clusters):
        raise ValueError("Two rows can only be compared item by item if both were scored on the same items.")
    difference = a.mean_sums - b.mean_sums
    weight = a.weights.sum()
    residual = difference - difference.sum() / weight * a.weights
    sums = np.bincount(np.unique(a.clusters, return_inverse=True)[1], residual)
    count = len(sums)
    return (count / (count - 1) * float(sums @ sums) / weight**2 if count > 1 else math.inf), count


@dataclass(frozen=True)
class Discordant:
    """The items that one of two rows has right more often than the other.

    Attributes:
        first, second: how many the first row has right more often, and how many the second.
        total: items of the test set.
    """

    first: float
    second: float
    total: int

    @classmethod
    def of_items(cls, a: Items, b: Items) -> Discordant:
        """Counted item by item."""
        difference = a.mean_sums - b.mean_sums
        return cls(float((difference > 0).sum()), float((difference < 0).sum()), len(difference))

    @classmethod
    def of_shares(cls, a: float, b: float, total: int) -> Discordant:
        """As many as two independent rows with these shares of right answers would have."""
        return cls(total * a * (1 - b), total * b * (1 - a), total)

    @property
    def p_value(self) -> float:
        """Of McNemar's exact test, two-sided."""
        from scipy import special

        n, most = self.first + self.second, max(self.first, self.second)
        if most <= 0:
            return 1.0
        return min(1.0, 2 * float(special.betainc(most, n - most + 1, 0.5)))  # of at least so many heads of n

    def interval(self, level: float) -> tuple[float, float]:
        """Of the first share less the second, by Clopper and Pearson: it leaves out 0 if p < level."""
        from scipy import special

        n = self.first + self.second
        low = special.betaincinv(self.first, self.second + 1, level / 2) if self.first > 0 else 0.0
        high = special.betaincinv(self.first + 1, self.second, 1 - level / 2) if self.second > 0 else 1.0
        return (2 * float(low) - 1) * n / self.total, (2 * float(high) - 1) * n / self.total
