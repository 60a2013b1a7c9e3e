"""How much the runs of each row scatter over seeds, with what all rows together say about it.

Three seeds say almost nothing about the spread of one row; twenty rows of three say it well. The values of a
column are taken for

    y_rs = mu_r + b_s + e_rs,   b_s ~ (0, tau^2),   e_rs ~ (0, sigma_r^2)

where b_s is what a seed does to all rows (left out where rows are not paired). A weighted fit of rows and
seeds gives residuals, and they a variance s_r^2 with d_r degrees of freedom for every row: the weights keep a
noisy row from leaking into the others through b. Then the variances are moderated:

- rows that are too noisy for the others (F test against their pool at .2 %, by Bonferroni) keep their own;
- if the others are equal by Bartlett's test, all get the pooled variance s0^2, and d0 is infinite;
- if not, s~_r^2 = (d0 s0^2 + d_r s_r^2) / (d0 + d_r) with d0 + d_r degrees of freedom, where d0 and s0^2 are
  those of the scaled F law that s_r^2 would follow.

Without Bartlett's test an estimated d0 would be finite for half of all equal rows, and cost them degrees of
freedom: one optimizer under twenty names would differ in 1 of 100 tables in place of 5.

Source: Smyth, Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments, Statistical Applications in Genetics and Molecular Biology 3, 2004, section 6 (`fitFDist` and
`squeezeVar` of limma, https://bioconductor.org/packages/limma); Phipson et al., Robust hyperparameter
estimation protects against hypervariable genes, Annals of Applied Statistics 10, 2016, for the idea of
leaving out the noisy ones; Rosner, Percentage points for a generalized ESD many-outlier procedure,
Technometrics 25, 1983, for how they are found.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.compare.ranges import Array

# Levels of Bartlett's test. Of paired rows, whose residuals depend on each other, it is less often small.
_EQUAL, _EQUAL_PAIRED = 0.02, 0.1
_NOISY = 0.002  # level of the test for a row that is too noisy for the others
_LEAST_SHARE = 1e-5  # of the median variance; no variance counts as less (limma)
_LEAST_LEFT = 0.25  # a row with fewer degrees of freedom in the fit shares too few seeds to be paired
_ROUNDING = 1e-20  # of the largest variance; less is what rounding leaves of equal values
_ROUNDS = 10  # of the weighted fit


@dataclass(frozen=True)
class Moderated:
    """The variances of rows, moderated.

    Attributes:
        variance, freedom: of each row.
        prior_variance, prior_freedom: s0^2 and d0.
        pooled_variance: of the rows that are not noisy.
        noisy: the rows that are not part of it.
        bartlett: p-value of Bartlett's test for equal variances of all rows.
    """

    variance: Array
    freedom: Array
    prior_variance: float
    prior_freedom: float
    pooled_variance: float
    noisy: NDArray[np.bool_]
    bartlett: float


def moderated(variances: Array, freedoms: Array, *, paired: bool = False) -> Moderated:
    """Moderate the variances of some rows.

    Args:
        variances: of each row; not read where the row has no degrees of freedom.
        freedoms: degrees of freedom of each row; 0: it gets the variance of the others.
        paired: whether they are of residuals of rows and seeds.

    Raises:
        ValueError: no row has a degree of freedom.
    """
    known = freedoms > 0
    if not known.any():
        raise ValueError("No row has two values, so nothing tells their spread.")
    usual, largest = float(np.median(variances[known])), float(variances[known].max())
    floor = max(_LEAST_SHARE * usual, _ROUNDING * largest, np.finfo(float).tiny)
    variances, freedoms = np.where(known, np.maximum(variances, floor), 0), np.where(known, freedoms, 0)
    quiet = _quiet(variances, freedoms)
    pooled, freedom = _pooled(variances[quiet], freedoms[quiet])
    prior_freedom, prior = np.inf, pooled
    if _bartlett(variances[quiet], freedoms[quiet]) < (_EQUAL_PAIRED if paired else _EQUAL):
        prior_freedom, prior = _prior(variances[quiet], freedoms[quiet])
    noisy = known & ~quiet
    if np.isinf(prior_freedom):
        squeezed = np.full_like(variances, prior)
    else:
        squeezed = (prior_freedom * prior + freedoms * variances) / (prior_freedom + freedoms)
    return Moderated(
        np.where(noisy, variances, squeezed),
        np.where(noisy, freedoms, np.minimum(prior_freedom + freedoms, freedom)),
        float(prior),
        float(prior_freedom),
        pooled,
        noisy,
        _bartlett(variances[known], freedoms[known]),
    )


def _quiet(variances: Array, freedoms: Array) -> NDArray[np.bool_]:
    """The rows that are not too noisy for the others.

    The noisiest row is tested against the pool of the others, then the next without it, down to a third of
    the rows. The last one that fails is noisy, and so are all before it, even where they hid each other.
    """
    from scipy import special

    order = np.argsort(np.where(freedoms > 0, variances, -1.0), kind="stable")
    order = order[(freedoms == 0).sum() :]
    end = len(order)
    for count in range(len(order), max(2, len(order) // 3), -1):
        pool, row = order[: count - 1], order[count - 1]
        pooled, freedom = _pooled(variances[pool], freedoms[pool])
        if special.fdtrc(freedoms[row], freedom, variances[row] / pooled) * count < _NOISY:
            end = count - 1
    quiet = np.zeros(len(variances), bool)
    quiet[order[:end]] = True
    return quiet


def _pooled(variances: Array, freedoms: Array) -> tuple[float, float]:
    total = freedoms.sum()
    return float(freedoms @ variances / total), float(total)


def _bartlett(variances: Array, freedoms: Array) -> float:
    """The p-value of equal variances: `scipy.stats.bartlett` from variances in place of values."""
    from scipy import special

    pooled, total = _pooled(variances, freedoms)
    k = len(variances)
    if k < 2 or pooled == 0:
        return 1.0
    statistic = total * np.log(pooled) - freedoms @ np.log(variances)
    correction = 1 + ((1 / freedoms).sum() - 1 / total) / (3 * (k - 1))
    return float(special.chdtrc(k - 1, max(0.0, statistic / correction)))


def _prior(variances: Array, freedoms: Array) -> tuple[float, float]:
    """d0 and s0^2 by the moments of log s^2: limma's `fitFDist`."""
    from scipy import special

    half = freedoms / 2
    logs = np.log(variances) - special.psi(half) + np.log(half)
    surplus = logs.var(ddof=1) - special.polygamma(1, half).mean()
    if surplus <= 0:
        return np.inf, _pooled(variances, freedoms)[0]
    prior = 2 * trigamma_inverse(surplus)
    return prior, float(np.exp(logs.mean() + special.psi(prior / 2) - np.log(prior / 2)))


def trigamma_inverse(x: float) -> float:
    """The y > 0 with trigamma(y) = x, by Newton's method on 1 / trigamma, which is convex (Smyth 2004)."""
    from scipy import special

    y = 0.5 + 1 / x
    for _ in range(50):
        value = float(special.polygamma(1, y))
        step = value * (1 - value / x) / float(special.polygamma(2, y))
        y += step
        if -step < 1e-10 * y:
            break
    return y


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


def spread(values: Array, *, paired: bool) -> Spread:
    """The spread of rows over seeds.

    Args:
        values: rows by seeds; NaN where a row has no run of a seed.
        paired: whether a seed does the same to all rows.

    Raises:
        ValueError: no row has two values.
    """
    there = np.isfinite(values)
    n = there.sum(axis=1)
    total = np.array(
        [row[~np.isnan(row)].var(ddof=1) if count > 1 else 0.0 for row, count in zip(values, n, strict=True)]
    )
    freedom = np.maximum(n - 1.0, 0)
    if not paired:
        return Spread(moderated(total, freedom), 0.0, np.inf, np.zeros(values.shape))
    # With equal weights, many noisy rows would leak into all others at once, and hide.
    usual = np.quantile(total, 0.25)
    weights = usual / (total + usual) if usual > 0 else np.ones(len(values))
    for _ in range(_ROUNDS):
        residual, left = _residual(values, there, weights)
        alone = left < _LEAST_LEFT
        own = moderated(np.where(alone, total, residual), np.where(alone, freedom, left), paired=True)
        before, weights = weights, own.prior_variance / own.variance if own.prior_variance else weights
        if np.allclose(before, weights, rtol=1e-3):
            break
    together = weights * ~alone
    surplus = together @ (total - residual) / together.sum() if together.any() else 0.0
    shares = there / np.maximum(n, 1)[:, None] * ~alone[:, None]
    return Spread(own, max(0.0, float(surplus)), max(1.0, shares.any(axis=0).sum() - 1.0), shares)


def _residual(values: Array, there: NDArray[np.bool_], weights: Array) -> tuple[Array, Array]:
    """The variance of each row about a weighted fit of rows and seeds, and its degrees of freedom.

    Those are the row's values less the leverage of each, so that the fit may have holes.
    """
    w = weights[:, None] * there
    y = np.where(there, values, 0)
    normal = np.block([[np.diag(w.sum(axis=1)), w], [w.T, np.diag(w.sum(axis=0))]])
    inverse = np.linalg.pinv(normal, hermitian=True)
    effects = inverse @ np.concatenate([(w * y).sum(axis=1), (w * y).sum(axis=0)])
    k = len(values)
    diagonal = np.diag(inverse)
    leverage = w * (diagonal[:k, None] + diagonal[None, k:] + 2 * inverse[:k, k:])
    left = np.maximum((there - leverage).sum(axis=1), 0)
    squares = ((y - effects[:k, None] - effects[None, k:]) ** 2 * there).sum(axis=1)
    return squares / np.maximum(left, _LEAST_LEFT), left
