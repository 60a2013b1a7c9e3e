"""What two rules differ by at several places, as one number: their mean, and how sure it is.

Places of a ladder err together, so their errors are no independent draws. What is shared is counted once:

- a fresh seed has the same weights and the same order of the data at all places of a size: what its runs add
  to the mean over places is summed before it is squared;
- the test documents are the same: each is one draw, with its difference averaged over places;
- the searches had the same few seeds and orders of the data. How much of their luck is shared can't be told
  from them, so all of it is, as if one draw had shifted every place; `z_apart` is the other end.

Source: Cameron and Miller, A practitioner's guide to cluster-robust inference, Journal of Human Resources 50,
2015.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from htbench.results.compare.items import paired_variance
from htbench.results.compare.judge import LEVEL, Row, judge


@dataclass(frozen=True)
class Pooled:
    """The mean over places of what the first row of each pair has more than the second.

    Attributes:
        places: how many.
        above: at how many of them it is positive.
        value, low, high: the mean with its interval of 95 %.
        z: it in standard errors.
        z_apart: the same if each search had luck of its own.
    """

    places: int
    above: int
    value: float
    low: float
    high: float
    z: float
    z_apart: float


def pooled(pairs: Sequence[tuple[Row, Row]]) -> Pooled:
    """Pool the differences of pairs.

    Args:
        pairs: one or more, of losses; the rows of each have two seeds or more in common, and were scored on
            the test items of all others. Without items they are not counted.

    Raises:
        ValueError: there is no pair, or one with fewer than two common seeds or with other test items.
    """
    from scipy import special

    if not pairs:
        raise ValueError("There is no pair to pool.")
    means: list[float] = []
    of_seeds: defaultdict[tuple[int, int], float] = defaultdict(float)
    for first, second in pairs:
        own = {at: x - second.values[at] for at, x in first.values.items() if at in second.values}
        count = len(own)
        if count < 2:
            raise ValueError(f"'{first.name}' and '{second.name}' need two seeds in common, not {count}.")
        means.append(sum(own.values()) / count)
        for at, x in own.items():
            of_seeds[at] += (x - means[-1]) / math.sqrt(count * (count - 1)) / len(pairs)
    seeds = sum(x**2 for x in of_seeds.values())
    tuning = np.array([_of_searches(*pair) for pair in pairs])
    items, documents = _of_documents(pairs)
    shared, apart = np.sqrt(tuning).mean() ** 2, tuning.sum() / len(pairs) ** 2
    total = seeds + shared + items
    freedom = len(of_seeds) - 1
    whole = total**2 / ((seeds**2 + shared**2) / freedom + items**2 / max(1, documents - 1))
    value, error = float(np.mean(means)), math.sqrt(total)
    reach = float(special.stdtrit(whole, 1 - LEVEL / 2)) * error
    z_apart = value / math.sqrt(seeds + apart + items)
    above = sum(mean > 0 for mean in means)
    return Pooled(len(pairs), above, value, value - reach, value + reach, value / error, float(z_apart))


def _of_searches(first: Row, second: Row) -> float:
    """The variance that the searches of two rows add to their difference."""
    judged = judge([first, second])
    return judged.verdicts[1 - judged.best].parts.tuning


def _of_documents(pairs: Sequence[tuple[Row, Row]]) -> tuple[float, int]:
    """The variance of the mean difference over other documents, and their number; 0 if they are not known."""
    means = []
    for rows in zip(*pairs, strict=True):
        items = [row.items for row in rows if row.items is not None]
        if len(items) < len(rows):
            return 0.0, 1
        first = items[0]
        if any(not np.array_equal(own.weights, first.weights) for own in items):
            raise ValueError("Places can only be pooled if all were scored on the same test items.")
        means.append(replace(first, sums=np.mean([own.mean_sums for own in items], axis=0)))
    return paired_variance(*means)
