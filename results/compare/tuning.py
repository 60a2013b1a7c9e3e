"""What the choice of a setting adds to the error of a row: it was chosen by noisy runs.

Two names of one optimizer end with different settings, as the noise of their search runs has it, and then
differ truly, however many replicas they get. So the choice is made again many times, each time with new noise
on the search runs, and the variance of what the chosen setting is worth becomes part of the row's error. The
noise has the pooled variance of the rows; three values are never drawn again.

Where the rates of the settings span at least three octaves, a parabola over log2 lr says what they are worth,
L = L* + c (log2 lr - x)^2: the values themselves contain the noise of the search already, and would count it
twice. Otherwise a setting is worth its search value, and the chosen one what its replicas say.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.choice.parabola import are_enough
from results.compare.ranges import Array

_DRAWS = 2000


@dataclass(frozen=True)
class Setting:
    """A setting that a row chose among.

    Attributes:
        name: it may be any that tells it from the others.
        values: of its search runs, on the scale of the comparison; at least one.
        log2_rate: of its learning rate; None if it is not known, or if the settings differ in more.
    """

    name: str
    values: Sequence[float]
    log2_rate: float | None = None


@dataclass(frozen=True)
class Search:
    """The settings that a row chose among.

    Attributes:
        settings: all of them.
        chosen: the name of the chosen one.
        replicated: what its replicas achieved where the search looked, that is on validation; None: it looked
            at what is compared.
    """

    settings: Sequence[Setting]
    chosen: str
    replicated: float | None = None


def tuning_variance(
    search: Search, replicated: float, variance: float, freedom: float, *, higher_is_better: bool
) -> float:
    """The variance of what the chosen setting of a row is worth, over the noise of its search.

    Args:
        search: what the row chose among.
        replicated: the mean of its replicas on what is compared.
        variance, freedom: of one run, moderated, with its degrees of freedom.
        higher_is_better: of the values.
    """
    if len(search.settings) < 2:
        return 0.0
    values = np.array([np.mean(setting.values) for setting in search.settings])
    fit = _parabola(search.settings, values)
    worth = values if fit is None else fit
    sd = np.sqrt(variance / np.array([len(setting.values) for setting in search.settings]))
    drawn = worth + sd * _noise(freedom, len(values))
    picked = np.argmax(drawn if higher_is_better else -drawn, axis=1)
    if fit is None:
        chosen = [setting.name == search.chosen for setting in search.settings]
        worth = np.where(chosen, replicated if search.replicated is None else search.replicated, values)
    return float(worth[picked].var())


@functools.lru_cache(64)  # the rows of a table often have as many settings, and one pool of variances
def _noise(freedom: float, count: int) -> Array:
    """Student's t with so many degrees of freedom, for so many settings at once: draws by settings."""
    from scipy import special

    # By its policy (NEP 19), NumPy never changes the stream of RandomState: all versions print the same.
    source = np.random.RandomState(0)
    noise: Array = source.standard_normal((_DRAWS, count))
    if not np.isfinite(freedom):
        return noise
    # The quantiles of chi^2 in a random order, not draws: BLAS may make 2 + 1e-15 degrees of 2, and from the
    # first draw on that one of the two rejects, all differ. With 2 degrees, few draws decide the variance.
    levels = source.permutation((np.arange(_DRAWS) + 0.5) / _DRAWS)[:, None]
    noise *= np.sqrt(freedom / special.chdtri(freedom, 1 - levels))
    return noise


def _parabola(settings: Sequence[Setting], values: Array) -> Array | None:
    """The values by a least-squares parabola over log2 lr; None without enough rates."""
    rates = [setting.log2_rate for setting in settings if setting.log2_rate is not None]
    if len(rates) < len(settings) or not are_enough(rates):
        return None
    x = np.array(rates)
    return np.polyval(np.polyfit(x - x.mean(), values, 2), x - x.mean())
