"""How much the runs of each row scatter over seeds, with what all rows together say about it.

Three seeds say almost nothing about the spread of one row; twenty rows of three say it well. The values of a
column are taken for

    y_rs = mu_r + b_s + e_rs,   b_s ~ (0, tau^2),   e_rs ~ (0, sigma_r^2)

where b_s is what a seed does to all rows (left out where rows are not paired). A weighted fit of rows and
seeds gives residuals, and they a variance s_r^2 with d_r degrees of freedom for every row: the weights keep a
noisy row from leaking into the others through b. Then the variances are moderated:

- a row of which one run lies far out counts without that run for all others, and keeps its variance with it;
- rows that are too noisy for the others (F test against their pool, by Bonferroni) keep theirs, too;
- the others get s~_r^2 = (d0 s0^2 + d_r s_r^2) / (d0 + d_r) with d0 = (1 + p) / (1 - p), where p is the
  p-value of Bartlett's test: from 1 (they scatter unlike) to infinity (alike). s0^2 is their pooled variance,
  or, where p is small, what limma takes: the exponential of the mean of log s_r^2, on which noisy rows weigh
  less. With more than 3 degrees of freedom d0 is (d_r / 3)^1.5 times as large: then the test finds what
  differs, and twenty rows with sixteen seeds that trust their own variances would err in 7 of 100 tables.

Their errors are those of equal rows, 1 / f_r = (1 - l_r^2) / d + l_r^2 / d_r with l_r = d_r / (d0 + d_r) and
d degrees of freedom in the pool: the first part is common to all rows, the second a row has alone. To take a
row for as quiet as the others until a test says otherwise errs where no test can say it: one row of eight
with three times the deviation would differ in 12 of 100 tables with four seeds, and differs in 7. The price:
where rows scatter alike, a gap that was found in 53 of 100 tables is found in 48.

Source: Smyth, Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments, Statistical Applications in Genetics and Molecular Biology 3, 2004, for moderated variances;
Phipson et al., Robust hyperparameter estimation protects against hypervariable genes, Annals of Applied
Statistics 10, 2016, for the idea of leaving out the noisy ones; Rosner, Percentage points for a generalized
ESD many-outlier procedure, Technometrics 25, 1983, for how they are found; Cook and Weisberg, Residuals and
influence in regression, 1982, section 2.2, for the test of a single run.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from htbench.results.compare.ranges import Array

_FEW = 3.0  # degrees of freedom of a row up to which Bartlett's test finds too little
_UNLIKE = 0.02  # level of Bartlett's test below which rows have no common variance to pool
# Levels of the test for a row that is too noisy for the others, the highest for three seeds. With more seeds
# a row that it does not find counts by its own variance, and to leave rows out makes the pool too quiet.
_NOISY, _NOISY_LEAST = 0.005, 0.0001
_FAR = 0.01  # level of the test for a single run that lies far out
_LOUD = 2.0  # times the pooled variance: of a row that scatters so much no run is taken out
_ROUNDING_SHARE = 1e-9  # of leverages and of squares; less is what rounding leaves of none
_LEAST_SHARE = 1e-5  # of the median variance; no variance counts as less (limma)
_LEAST_LEFT = 0.25  # a row with fewer degrees of freedom in the fit shares too few seeds to be paired
_ROUNDING = 1e-20  # of the largest variance; less is what rounding leaves of equal values
_EQUAL = 1e-10  # of the largest value; less is what rounding, which is each processor's, leaves of a fit
_ROUNDS = 10  # of the weighted fit


@dataclass(frozen=True)
class Moderated:
    """The variances of rows, moderated.

    Attributes:
        variance: of each row.
        common, alone: the error of each variance, as parts of 1 / freedom: what it shares with the others,
            and what the row has alone.
        pooled_variance: of the rows that are not noisy.
        noisy: the rows that keep their own variance.
        bartlett: p-value of Bartlett's test for equal variances of all rows.
    """

    variance: Array
    common: Array
    alone: Array
    pooled_variance: float
    noisy: NDArray[np.bool_]
    bartlett: float

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of each row."""
        freedom: Array = 1 / (self.common + self.alone)
        return freedom

    def freedom_beside(self, row: int, counts: Array) -> Array:
        """Degrees of freedom of the variance of each difference to a row, of means of so many values."""
        of_mean = self.variance / self.pooled_variance / counts
        common, alone = of_mean * np.sqrt(self.common), of_mean**2 * self.alone
        freedom: Array = (of_mean + of_mean[row]) ** 2 / ((common + common[row]) ** 2 + alone + alone[row])
        return freedom


def moderate(variances: Array, freedoms: Array) -> Moderated:
    """Moderate the variances of some rows.

    Args:
        variances: of each row; not read where the row has no degrees of freedom.
        freedoms: degrees of freedom of each row; 0: it gets the variance of the others.

    Raises:
        ValueError: no row has a degree of freedom.
    """
    from scipy import special

    is_known = freedoms > 0
    if not is_known.any():
        raise ValueError("No row has two values, so nothing tells their spread.")
    known = variances[is_known]
    floor = max(_LEAST_SHARE * np.median(known), _ROUNDING * known.max(), np.finfo(float).tiny)
    variances = np.where(is_known, np.maximum(variances, floor), 0)
    quiet = _find_quiet(variances, freedoms)
    kept, own = variances[quiet], freedoms[quiet]
    freedom = float(own.sum())
    pooled = float(own @ kept) / freedom
    noisy = is_known & ~quiet
    alike = _test_bartlett(kept, own)
    prior = pooled
    if alike < _UNLIKE:
        half = own / 2
        prior = min(pooled, float(np.exp((np.log(kept) - special.psi(half) + np.log(half)).mean())))
    times = np.maximum(1, freedoms / _FEW) ** 1.5
    weight = freedoms * (1 - alike) / (1 + alike) / times  # d_r / d0
    share = np.where(noisy, 1, weight / (1 + weight))
    return Moderated(
        share * variances + (1 - share) * prior,
        (1 - share**2) / freedom,
        share**2 / np.where(is_known, freedoms, 1),
        pooled,
        noisy,
        _test_bartlett(variances[is_known], freedoms[is_known]) if noisy.any() else alike,
    )


def _find_quiet(variances: Array, freedoms: Array) -> NDArray[np.bool_]:
    """The rows that are not too noisy for the others.

    The noisiest row is tested against the pool of the others, then the next without it, down to a third of
    the rows. The last one that fails is noisy, and so are all before it, even where they hid each other.
    """
    from scipy import special

    order = np.argsort(np.where(freedoms > 0, variances, -1.0), kind="stable")
    order = order[(freedoms == 0).sum() :]
    own, total = freedoms[order], freedoms[order].cumsum()
    counts = np.arange(max(2, len(order) // 3) + 1, len(order) + 1)
    row, pool = counts - 1, counts - 2
    ratio = variances[order][row] / ((own * variances[order]).cumsum() / total)[pool]
    level = np.clip(10 ** (0.7 - 1.5 * own[row]), _NOISY_LEAST, _NOISY)
    noisy = row[special.fdtrc(own[row], total[pool], ratio) * counts < level]
    quiet = np.zeros(len(variances), bool)
    quiet[order[: noisy.min(initial=len(order))]] = True
    return quiet


def _test_bartlett(variances: Array, freedoms: Array) -> float:
    """The p-value of equal variances: `scipy.stats.bartlett` from variances in place of values."""
    from scipy import special

    k, total = len(variances), freedoms.sum()
    pooled = freedoms @ variances / total
    if k < 2 or pooled == 0:
        return 1.0
    statistic = total * np.log(pooled) - freedoms @ np.log(variances)
    correction = 1 + ((1 / freedoms).sum() - 1 / total) / (3 * (k - 1))
    return float(special.chdtrc(k - 1, max(0.0, statistic / correction)))


@dataclass(frozen=True)
class Spread:
    """How much the values of each row scatter.

    Attributes:
        own: moderated variances of e.
        seeds: tau^2, of what a seed does to all rows that share it; 0 if they are not paired.
        seeds_freedom: its degrees of freedom.
        shares: of each row the weight of each seed in its mean; 0 where b_s is part of e.
    """

    own: Moderated
    seeds: float
    seeds_freedom: float
    shares: Array


def estimate_spread(values: Array, *, paired: bool) -> Spread:
    """The spread of rows over seeds.

    Args:
        values: rows by seeds; NaN where a row has no run of a seed.
        paired: whether a seed does the same to all rows.

    Raises:
        ValueError: no row has two values.
    """
    there = np.isfinite(values)
    n = there.sum(axis=1)
    freedom = np.maximum(n - 1.0, 0)
    from_mean = values - np.nanmean(values, axis=1, keepdims=True)
    total = np.nansum(from_mean**2, axis=1) / np.maximum(freedom, 1)
    if not paired:
        return Spread(moderate(total, freedom), 0.0, np.inf, np.zeros(values.shape))
    scatter, far = _fit_weighted(values, there, total, freedom), _find_far_run(values, there)
    if far is None:
        return scatter
    (row, seed), distance = far
    without = values.copy()
    without[row, seed] = np.nan
    without_run = estimate_spread(without, paired=True)
    moderated, count, is_row = without_run.own, n[row], np.arange(len(values)) == row
    # The runs of a row that is noisy as a whole are all far out; the rest of it would widen the pool.
    if moderated.variance[row] > _LOUD * moderated.pooled_variance and not moderated.noisy[row]:
        return scatter
    # What the run adds to the squares of its row about their mean.
    itself = ((count - 2) * moderated.variance[row] + distance**2 * (count - 1) / count) / (count - 1)
    moderated = replace(
        moderated,
        variance=np.where(is_row, itself, moderated.variance),
        common=np.where(is_row, 0, moderated.common),
        alone=np.where(is_row, 1 / (count - 1), moderated.alone),
        noisy=moderated.noisy | is_row,
        bartlett=scatter.own.bartlett,
    )
    return replace(scatter, own=moderated, seeds=without_run.seeds)


def _fit_weighted(values: Array, there: NDArray[np.bool_], total: Array, freedom: Array) -> Spread:
    """The spread of paired rows, no run of which lies far out."""
    # With equal weights, many noisy rows would leak into all others at once, and hide.
    usual = np.quantile(total, 0.25)
    weights = usual / (total + usual) if usual > 0 else np.ones(len(values))
    least = (_EQUAL * np.nanmax(np.abs(values))) ** 2
    for _ in range(_ROUNDS):
        residual, leverage = _fit_effects(values, there, weights)
        freedom_left = np.maximum((there - leverage).sum(axis=1), 0)
        about = np.maximum((residual**2).sum(axis=1) / np.maximum(freedom_left, _LEAST_LEFT), least)
        alone = freedom_left < _LEAST_LEFT
        moderated = moderate(np.where(alone, total, about), np.where(alone, freedom, freedom_left))
        before, weights = weights, moderated.pooled_variance / moderated.variance
        if (np.abs(before - weights) <= 1e-8 + 1e-3 * weights).all():
            break
    together = weights * ~alone
    surplus = together @ (total - about) / together.sum() if together.any() else 0.0
    shares = there / np.maximum(freedom + 1, 1)[:, None] * ~alone[:, None]
    return Spread(moderated, max(0.0, float(surplus)), max(1.0, shares.any(axis=0).sum() - 1.0), shares)


def _find_far_run(values: Array, there: NDArray[np.bool_]) -> tuple[tuple[np.intp, np.intp], float] | None:
    """The row and the seed of the run that lies farthest out, if one does, and how far it does."""
    from scipy import special

    residual, leverage = _fit_effects(values, there, np.ones(len(values)))
    share_left = there - leverage
    # Of two runs of a seed, or of a row, nothing says which is out.
    is_known = (
        (there.sum(axis=0) > 2) & (there.sum(axis=1, keepdims=True) > 2) & (share_left > _ROUNDING_SHARE)
    )
    freedom = share_left.sum() - 1
    if freedom < 1 or not is_known.any():
        return None
    distance = residual / np.where(is_known, share_left, 1)
    squares = (residual**2).sum() - residual * distance
    is_known &= squares > _ROUNDING_SHARE * (residual**2).sum()
    ratio = np.where(is_known, residual * distance * freedom / np.where(is_known, squares, 1), 0)
    far = np.unravel_index(ratio.argmax(), ratio.shape)
    if special.fdtrc(1, freedom, ratio[far]) * is_known.sum() > _FAR:
        return None
    return (far[0], far[1]), float(distance[far])


def _fit_effects(values: Array, there: NDArray[np.bool_], weights: Array) -> tuple[Array, Array]:
    """What a weighted fit of rows and seeds leaves of each value, and its leverage; with holes or without."""
    w = weights[:, None] * there
    y, k = np.where(there, values, 0), len(values)
    scale = np.sqrt(np.concatenate([w.sum(axis=1), w.sum(axis=0)]))
    normal = np.eye(len(scale))  # scaled: so the least of the weights keeps its digits beside the largest
    normal[:k, k:] = w / np.outer(scale[:k], scale[k:])
    normal[k:, :k] = normal[:k, k:].T
    sizes, vectors = np.linalg.eigh(normal)  # as `pinv` does it, in half the time
    vectors /= scale[:, None]
    inverse = vectors / np.where(np.abs(sizes) > 1e-15 * sizes[-1], sizes, np.inf) @ vectors.T
    effects = inverse @ np.concatenate([(w * y).sum(axis=1), (w * y).sum(axis=0)])
    diagonal = np.diag(inverse)
    leverage = w * (diagonal[:k, None] + diagonal[None, k:] + 2 * inverse[:k, k:])
    return (y - effects[:k, None] - effects[None, k:]) * there, leverage
