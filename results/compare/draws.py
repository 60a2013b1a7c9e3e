"""What rows could have achieved had all noise been drawn anew: a parametric bootstrap of their losses.

A draw has new noise of the seeds, of the search that chose each setting, and another sample of documents:

- the mean of a row scatters by t, with the moderated variances that the judge uses too (`spread`). What a
  seed does to all rows of a workload is drawn once for all of them;
- the search runs get noise of the same variance, the choice is made again, and the row shifts by what the
  chosen setting is worth beside what its choice is worth on average (`tuning` says how settings are valued);
- documents of the test split are drawn with replacement, the same ones for all rows.

Source: Efron and Tibshirani, An introduction to the bootstrap, 1993, chapters 6 and 13.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from htbench.results.compare.items import Items
from htbench.results.compare.judge import Row
from htbench.results.compare.ranges import Array
from htbench.results.compare.spread import Spread, estimate_spread

DRAWS = 2000
LEVEL = 0.05
_WIDEST = 1e3  # deviations; that of less than one degree of freedom may be infinite
_ROUNDING = 1e-9  # of a loss; no variance counts as less


@dataclass(frozen=True, eq=False)
class Draws:
    """The losses of rows.

    Attributes:
        losses: (rows, 1 + draws); the first column is what was measured.
        variances: (rows,), of the mean of each row over seeds and searches.
    """

    losses: Array
    variances: Array


def draw_losses(rows: Sequence[Row], places: Sequence[str], draws: int = DRAWS) -> Draws | None:
    """Draw, with a fixed seed; None where no row has two values that differ: nothing tells their noise.

    Args:
        rows: of losses, the lower the better.
        places: the workload of each row: seeds are paired within one.
        draws: how many.
    """
    pairs = zip(rows, places, strict=True)
    found = [{(place, seeds): value for seeds, value in row.values.items()} for row, place in pairs]
    columns = sorted({column for of_row in found for column in of_row})
    values = np.array([[of_row.get(column, math.nan) for column in columns] for of_row in found])
    counts = np.isfinite(values).sum(axis=1)
    if counts.max() < 2:
        return None
    random, scatter = np.random.RandomState(0), estimate_spread(values, paired=True)
    if math.sqrt(scatter.own.pooled_variance) <= _ROUNDING * np.nanmax(np.abs(values)):
        return None
    means = np.nanmean(values, axis=1)
    scales = _draw_scales(random, scatter.own.freedom, draws)
    noise = np.sqrt(scatter.own.variance / counts)[:, None] * scales * random.standard_normal(scales.shape)
    together = math.sqrt(scatter.seeds) * _draw_scales(random, np.array([scatter.seeds_freedom]), draws)
    noise += scatter.shares @ (together * random.standard_normal((len(columns), draws)))
    shifts = np.array([_draw_shifts(random, row, scatter, at, scales[at]) for at, row in enumerate(rows)])
    variances = (
        scatter.own.variance / counts + scatter.seeds * (scatter.shares**2).sum(axis=1) + shifts.var(axis=1)
    )
    documents = _draw_documents(random, [row.items for row in rows], draws)
    all_noise = noise + shifts + (0.0 if documents is None else documents)
    losses = means[:, None] + np.hstack([np.zeros((len(rows), 1)), all_noise])
    return Draws(losses, np.maximum(variances, (_ROUNDING * means) ** 2))


def _draw_scales(random: np.random.RandomState, freedoms: Array, draws: int) -> Array:
    """By how much the true deviation of a row exceeds the estimated one: that of t. One pool errs as one."""
    from scipy import special

    chance = random.uniform(size=draws)
    is_finite = np.isfinite(freedoms)[:, None]
    half = np.where(is_finite, freedoms[:, None], 2.0) / 2
    scales = np.sqrt(half / special.gammaincinv(half, chance)).clip(max=_WIDEST)
    return np.where(is_finite, scales, 1.0)


def _draw_shifts(random: np.random.RandomState, row: Row, scatter: Spread, at: int, scales: Array) -> Array:
    """By how much the setting that each draw chooses is worse than the one that is chosen on average."""
    search = row.search
    if search is None or len(search.settings) < 2:
        return np.zeros(len(scales))
    worth = search.worth(float(np.mean(list(row.values.values()))))
    sd = np.sqrt(scatter.own.variance[at] / [len(setting.values) for setting in search.settings])
    noise = sd[:, None] * scales * random.standard_normal((len(worth), len(scales)))
    chosen = (search.seen[:, None] + noise).argmin(axis=0)
    shifts: Array = worth[chosen] - worth[chosen].mean()
    return shifts


def _draw_documents(random: np.random.RandomState, items: Sequence[Items | None], draws: int) -> Array | None:
    """What another sample of documents adds to each row; None unless all were scored on the same ones."""
    first = items[0]
    if first is None:
        return None
    sums = []
    for scored in items:
        if scored is None or not np.array_equal(scored.clusters, first.clusters):
            return None
        sums.append(_sum_by_document(scored, scored.mean_sums))
    total, weights = np.array(sums), _sum_by_document(first, first.weights)
    sample = random.multinomial(len(weights), np.full(len(weights), 1 / len(weights)), draws).T
    noise: Array = total @ sample / (weights @ sample) - (total.sum(axis=1) / weights.sum())[:, None]
    return noise


def _sum_by_document(items: Items, values: Array) -> Array:
    sums: Array = np.bincount(np.unique(items.clusters, return_inverse=True)[1], values).astype(float)
    return sums


@dataclass(frozen=True)
class Estimate:
    """A number with its interval of 95 %, within what could be observed.

    Attributes:
        value: None: it lies beyond what was observed.
        low, high: the interval's ends; None: beyond as well, or not known.
        least, most: what was observed.
        is_above, is_below: where the value lies if there is none.
    """

    value: float | None
    low: float | None
    high: float | None
    least: float = -math.inf
    most: float = math.inf
    is_above: bool = False
    is_below: bool = False


def estimate_interval(values: Array, least: float = -math.inf, most: float = math.inf) -> Estimate:
    """The estimate from what was measured and its draws.

    Args:
        values: the first one is what was measured. If more than 2.5 % of the draws are no numbers, the
            interval is not known.
        least, most: beyond these nothing is told but on which side it lies.
    """
    first, rest = float(values[0]), values[1:]
    is_above, is_below = first > most, first < least
    value = None if is_above or is_below or not math.isfinite(first) else first
    finite = rest[~np.isnan(rest)]
    if not len(rest) or len(rest) - len(finite) > LEVEL / 2 * len(rest):
        return Estimate(value, None, None, least, most, is_above, is_below)
    ends = np.percentile(finite, [50 * LEVEL, 100 - 50 * LEVEL], method="nearest")
    low, high = (float(end) if least <= end <= most and math.isfinite(end) else None for end in ends)
    return Estimate(value, low, high, least, most, is_above, is_below)


def measure_miss(differences: Array) -> float | None:
    """What was measured in standard errors, which are half of what holds 68 % of the draws."""
    if len(differences) < 2:
        return None
    low, high = np.nanpercentile(differences[1:], [15.87, 84.13])
    return float(differences[0] / max((high - low) / 2, np.finfo(float).tiny))
