"""What the choice of a setting adds to the error of a row: it was chosen by noisy runs.

Two names of one optimizer end with different settings, as the noise of their search runs has it, and then
differ truly, however many replicas they get. So each setting gets the chance that it is chosen where the
search runs have new noise, and the variance of what the chosen one is worth becomes part of the row's error.
The noise has the pooled variance of the rows; three values are never drawn again.

Where the rates of the settings span at least three octaves, a parabola over log2 lr says what they are worth,
L = L* + c (log2 lr - x)^2: the values themselves contain the noise of the search already, and would count it
twice. Otherwise a setting is worth its search value, and the chosen one what its replicas say.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from htbench.harness.choice.parabola import are_enough
from htbench.results.compare.ranges import Array, nodes, scales_of


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

    @functools.cached_property
    def means(self) -> Array:
        """What the search runs of each setting say it is worth."""
        return np.array([statistics.fmean(setting.values) for setting in self.settings])

    @property
    def seen(self) -> Array:
        """The same without what noise it can be freed of: by the parabola, if there is one."""
        return self.means if self.parabola is None else self.parabola

    def worth(self, measured: float) -> Array:
        """What each setting is worth: what is seen, but for the chosen one what its replicas say.

        Args:
            measured: what they achieved on what is compared.
        """
        if self.parabola is not None:
            return self.parabola
        replicated = measured if self.replicated is None else self.replicated
        return np.where([setting.name == self.chosen for setting in self.settings], replicated, self.means)

    @functools.cached_property
    def parabola(self) -> Array | None:
        """The same by a least-squares parabola over log2 lr; None without enough rates."""
        rates = [setting.log2_rate for setting in self.settings if setting.log2_rate is not None]
        if len(rates) < len(self.settings) or not are_enough(rates):
            return None
        basis, _ = np.linalg.qr(np.vander(np.array(rates) - np.mean(rates), 3))
        return basis @ (basis.T @ self.means)


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
    worth, seen = search.worth(replicated), search.seen
    sd = np.sqrt(variance / np.array([len(setting.values) for setting in search.settings]))
    chances = _find_chances(seen if higher_is_better else -seen, sd, freedom)
    return float(chances @ (worth - chances @ worth) ** 2)


def _find_chances(worth: Array, sd: Array, freedom: float) -> Array:
    """The chance of each setting to come out largest, with noise that shares one estimate of its scale.

    Given the scale, the noise of settings is normal and independent: setting i comes out at x, and the others
    below it. Draws in place of the integral hung on the last digit of the degrees of freedom: on the BLAS.
    """
    from scipy import special

    _, weights = nodes()
    wide = sd / scales_of(np.array(freedom))[:, None]  # scales by settings
    z = np.linspace(-8, 8, 1 + int(np.ceil(32 * sd.max() / sd.min())))  # half a deviation apart
    # Nothing but the highest setting's neighbourhood decides.
    x = worth.max() + wide.max(axis=1)[:, None, None] * z
    at = np.clip((x - worth[:, None]) / wide[..., None], -37, 37)  # scales by settings by x; ndtr is not 0
    below = special.ndtr(at)
    chances = (below.prod(axis=1, keepdims=True) / below * np.exp(-(at**2) / 2)).sum(axis=2) / wide
    total: Array = weights @ (chances / chances.sum(axis=1, keepdims=True))
    return total
