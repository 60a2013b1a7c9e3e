"""The probability that a row is the best one, by bootstrap over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from results.compare.stats import MIN_SEEDS, Sample

_RESAMPLES = 10_000
_SEED = 0


def chance_of_best(rows: Sequence[Sample | None], *, higher_is_better: bool) -> list[float | None]:
    """How often each row has the best mean if the seeds are drawn again with replacement.

    Rows with the same seeds keep them together, so what a seed does to all of them cancels. The error of a
    finite test set is drawn from the normal law. Rows that are equal share a win. With few seeds the
    bootstrap is too sure: three seeds have a sixth less spread than what they were drawn from.

    Args:
        rows: None is a row without values.
        higher_is_better: the direction.

    Returns:
        a probability per row; None for a row without values, and for all of them if one has fewer than
        `MIN_SEEDS` values, or if there is only one.
    """
    known = [row for row in rows if row is not None]
    if len(known) < 2 or any(len(row.values) < MIN_SEEDS for row in known):
        return [None] * len(rows)
    means = _resampled_means(known) * (1 if higher_is_better else -1)
    wins = means == means.max(axis=0)
    shares = iter((wins / wins.sum(axis=0)).mean(axis=1))
    return [None if row is None else float(next(shares)) for row in rows]


def _resampled_means(rows: Sequence[Sample]) -> np.ndarray:
    """One line of `_RESAMPLES` means per row."""
    # By its policy (NEP 19), NumPy never changes the stream of RandomState: all versions print the same.
    source = np.random.RandomState(_SEED)
    drawn: dict[frozenset[tuple[int, int]], np.ndarray] = {}
    means = np.empty((len(rows), _RESAMPLES))
    for line, row in zip(means, rows, strict=True):
        seeds = frozenset(row.values)
        if seeds not in drawn:
            drawn[seeds] = source.randint(len(seeds), size=(_RESAMPLES, len(seeds)))
        values = np.array([row.values[seed] for seed in sorted(seeds)])
        line[:] = values[drawn[seeds]].mean(axis=1)
        if row.test_variance:
            line += source.normal(0, row.test_variance**0.5, _RESAMPLES)
    return means
