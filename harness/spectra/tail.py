"""Power-law exponents of eigenvalue spectra, by the estimators that the heavy-tail literature uses.

All fit a density ~ lambda^-alpha to the eigenvalues from some xmin on, with the exponent of greatest
likelihood (Hill 1975; Clauset, Shalizi and Newman 2009, https://arxiv.org/abs/0706.1062). They differ in the
choice of xmin:

hill_mid  the median. As TempBalance (Zhou et al. 2023, https://arxiv.org/abs/2312.00359) and AlphaDecay do in
          training; a smooth function of the spectrum.
ks        the candidate whose power law is nearest in the Kolmogorov-Smirnov distance. As Clauset et al., and
          the default of weightwatcher. The chosen xmin can jump.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

METHODS: Final = ("hill_mid", "ks")

SMALL_N = 50  # eigenvalues; fewer are too few for a fit (`eigs_thresh` of TempBalance)
FLAT = 1e5  # an exponent from here on says that the tail is one value, up to rounding in float32

_BLOCK = 2**15  # numbers of the scan at a time: they stay in the cache of a core


@dataclass(frozen=True)
class PLFit:
    """A power law fitted to the upper part of a spectrum.

    Attributes:
        alpha: the exponent; inf for a flat tail, nan where nothing can be fitted.
        D: Kolmogorov-Smirnov distance between the tail and the power law.
        sigma: standard error of alpha.
        xmin: the eigenvalue where the tail begins.
        n_tail: eigenvalues in the tail, xmin included.
        n_used: eigenvalues that the method looked at.
        method: one of `METHODS`.
        flags: what is wrong with the fit: "not_finite", "small_n", "tail_hits_zero", "flat", "no_tail".
    """

    alpha: float
    D: float  # the field's symbol
    sigma: float
    xmin: float
    n_tail: int
    n_used: int
    method: str
    flags: tuple[str, ...] = ()


def fit_alpha(
    evals: ArrayLike,
    method: str = "hill_mid",
    *,
    cut: float = 0.0,
) -> PLFit:
    """Fit a power law to the tail of a spectrum. Whatever the numbers are, the answer is a fit with flags.

    Args:
        evals: eigenvalues, in any order.
        method: one of `METHODS`.
        cut: eigenvalues up to this one are rounding noise. hill_mid has no answer if its tail reaches them;
            ks drops them, which changes neither alpha nor D of the candidates that remain.

    Raises:
        ValueError: unknown method, or `evals` is no vector.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known are {', '.join(METHODS)}")
    values = np.sort(np.asarray(evals, dtype=np.float64))
    if values.ndim != 1:
        raise ValueError(f"eigenvalues must be a vector, not of shape {values.shape}")
    if not np.isfinite(values).all():
        return _nothing(method, len(values), "not_finite")
    if method == "hill_mid":
        return _hill_mid(values, cut)
    return _by_distance(values[values > cut])


def _hill_mid(evals: Floats, cut: float) -> PLFit:
    start = len(evals) // 2
    if start >= len(evals) or evals[start] <= max(cut, 0.0):
        return _nothing("hill_mid", len(evals), "tail_hits_zero" if len(evals) else "no_tail")
    logs = np.log(evals[start:])
    slopes = _slopes(logs)[:1]
    return _fit("hill_mid", evals, start, slopes[0], _distances(logs, slopes)[0])


def _by_distance(evals: Floats) -> PLFit:
    logs = np.log(evals)
    slopes = _slopes(logs)[:-1]
    allowed = slopes > 0
    if not allowed.any():
        return _nothing("ks", len(evals), "no_tail")
    distances = np.where(allowed, _distances(logs, slopes), np.inf)
    best = int(np.argmin(distances))
    return _fit("ks", evals, best, slopes[best], distances[best])


def _slopes(logs: Floats) -> Floats:
    """alpha - 1 with each of the ascending logarithms as the beginning of the tail: n / sum_j ln(e_j / e_i).

    The sums are of the gaps between neighbours, each as often as there are eigenvalues above it. A difference
    of sums of logarithms would lose the digits of a nearly flat tail.
    """
    n = np.arange(len(logs), 0, -1)
    gaps = np.diff(logs, append=logs[-1:]) * (n - 1)
    with np.errstate(divide="ignore"):
        slopes: Floats = n / np.cumsum(gaps[::-1])[::-1]
    return slopes


def _distances(logs: Floats, slopes: Floats) -> Floats:
    """max_j |1 - (e_j/e_i)^(1-alpha_i) - (j-i)/n_i| over j >= i, for the first i; some rows at a time."""
    distances = np.empty(len(slopes))
    powers = np.where(np.isinf(slopes), 0.0, -slopes)  # in a flat tail all ratios are 1, and so all powers
    start = 0
    while start < len(slopes):
        width = len(logs) - start
        rows = min(max(1, _BLOCK // width), len(slopes) - start)
        distances[start : start + rows] = _block(logs[start:], powers[start : start + rows])
        start += rows
    return distances


def _block(logs: Floats, powers: Floats) -> Floats:
    """`_distances` of the first rows; a row is a tail that begins one eigenvalue later."""
    rows, n = np.arange(len(powers))[:, None], len(logs)
    table = logs - logs[: len(rows), None]
    table *= powers[:, None]
    with np.errstate(over="ignore"):  # left of the diagonal, which is cleared below
        np.exp(table, out=table)
    table += (np.arange(n) - rows) / (n - rows) - 1
    np.abs(table, out=table)
    for row in range(1, len(rows)):
        table[row, :row] = 0.0
    greatest: Floats = table.max(axis=1)
    return greatest


def _fit(method: str, evals: Floats, start: int, slope: float, distance: float) -> PLFit:
    alpha, n_tail = 1 + float(slope), len(evals) - start
    flags = ("small_n",) if len(evals) < SMALL_N else ()
    if alpha >= FLAT:
        alpha, flags = math.inf, (*flags, "flat")
    sigma = (alpha - 1) / math.sqrt(n_tail)
    return PLFit(alpha, float(distance), sigma, float(evals[start]), n_tail, len(evals), method, flags)


def _nothing(method: str, n: int, flag: str) -> PLFit:
    flags = ("small_n", flag) if n < SMALL_N else (flag,)
    return PLFit(math.nan, math.nan, math.nan, math.nan, 0, n, method, flags)
