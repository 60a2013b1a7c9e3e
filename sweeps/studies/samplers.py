"""How the next trial of a study is drawn.

A draw is a function of the seed, the number of the trial and what the study knows, and of nothing in the
memory of a process: a search that was killed goes on as it would have, and any worker can take the next step.
"""

from __future__ import annotations

import hashlib
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial

from sweeps.plan.slots import Study


def sampler(study: Study, number: int) -> BaseSampler:
    """The sampler of trial `number`."""
    seed = int(hashlib.sha256(f"{study.seed} {study.name} {number}".encode()).hexdigest()[:8], 16)
    if study.mode == "sobol":
        return Sobol(study, number)
    if study.mode == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


class Sobol(BaseSampler):
    """Trial n is point n of a scrambled Sobol sequence over all axes.

    Optuna's QMCSampler takes the point from a counter in the study, and draws the first trial by another
    sampler. Here the point follows from the number of the trial.

    Source: Owen, Scrambling Sobol' and Niederreiter-Xing points, 1998, https://doi.org/10.1006/jcom.1998.0487

    Args:
        study: its axes are the dimensions, its seed is that of the scrambling.
        number: of the trial.
    """

    def __init__(self, study: Study, number: int) -> None:
        from scipy.stats import qmc

        seed = int(hashlib.sha256(f"{study.seed} {study.name}".encode()).hexdigest()[:8], 16)
        sequence = qmc.Sobol(len(study.axes), scramble=True, seed=seed)
        if number:  # SciPy refuses 0
            sequence.fast_forward(number)
        self._parts = dict(zip(study.axes, sequence.random(1)[0].tolist(), strict=True))

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """None: every parameter is drawn by `sample_independent`."""
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing."""
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The coordinate of the point that belongs to the parameter."""
        return between(param_distribution, self._parts[param_name])


def between(distribution: BaseDistribution, part: float) -> Any:
    """The value at the fraction `part` of a distribution; whole numbers and choices get equal shares."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(part * len(distribution.choices))]
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        if distribution.log:
            value = (low - 0.5) * ((high + 0.5) / (low - 0.5)) ** part
            return min(max(round(value), low), high)
        return low + int(part * (high - low + 1))
    assert isinstance(distribution, FloatDistribution)
    if distribution.log:
        value = distribution.low * (distribution.high / distribution.low) ** part
    else:
        value = distribution.low + part * (distribution.high - distribution.low)
    return min(max(value, distribution.low), distribution.high)  # rounding may step over the ends
