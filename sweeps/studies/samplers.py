"""Who decides in a study: how the next trial is drawn, and which trial is stopped early.

Both are functions of the seed, the number of the trial and what the study knows, and of nothing in the memory
of a process: a search that was killed goes on as it would have, and any worker can take the next step.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from sweeps.plan.slots import Study


def sampler(study: Study, number: int) -> BaseSampler:
    """What draws trial `number`."""
    seed = int(hashlib.sha256(f"{study.seed} {study.name} {number}".encode()).hexdigest()[:8], 16)
    if study.mode == "sobol":
        return Sobol(study, number)
    if study.mode == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def pruner(study: Study) -> BasePruner:
    """What stops trials of the study."""
    options = study.pruner_options
    if study.pruner == "asha":
        return Asha(**options)
    if study.pruner == "median":
        return MedianPruner(options["startup_trials"], options["warmup_steps"])
    return NopPruner()


class Sobol(BaseSampler):
    """Trial n is point n of a scrambled Sobol sequence over all axes.

    Optuna's QMCSampler counts in the study and draws its first trial otherwise; here the number is enough.

    Source: Owen, Scrambling Sobol' and Niederreiter-Xing points, 1998, https://doi.org/10.1006/jcom.1998.0487

    Args:
        study: its axes are the dimensions, its seed scrambles.
        number: the trial.
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
    """The value `part` of the way through a distribution; whole numbers and choices get equal shares."""
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


class Asha(BasePruner):
    """Asynchronous successive halving: at rungs min_resource * reduction_factor^i the best fraction goes on.

    A trial that arrives at a rung goes on if it is among the best 1 / reduction_factor of all that have
    arrived there so far, itself included, or the best of fewer than reduction_factor.

    Source: Li et al., A System for Massively Parallel Hyperparameter Tuning, 2020,
    https://arxiv.org/abs/1810.05934. The paper pauses a trial and may promote it later; here, as in Optuna's
    SuccessiveHalvingPruner, it ends. Optuna's keeps rungs as marks of a trial: a decision is lost when the
    process dies after making it, and all are when a study is rebuilt. Ours reads nothing but the reports.

    Args:
        min_resource: steps before the first decision.
        reduction_factor: of this many, one goes on.
    """

    def __init__(self, min_resource: int, reduction_factor: int) -> None:
        self.min_resource, self.reduction_factor = min_resource, reduction_factor

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether a trial ends at the rungs that its last report has reached."""
        if trial.last_step is None:
            return False
        value = trial.intermediate_values[trial.last_step]
        before = max((step for step in trial.intermediate_values if step < trial.last_step), default=0)
        trials = study.get_trials(deepcopy=False)
        rung = self.min_resource
        while rung <= trial.last_step:
            if rung > before:
                others = (_value_at(one, rung) for one in trials if one.number != trial.number)
                rivals = [other for other in others if other is not None]
                if not self._goes_on(value, rivals, study.direction):
                    return True
            rung *= self.reduction_factor
        return False

    def _goes_on(self, value: float, rivals: Sequence[float], direction: StudyDirection) -> bool:
        if math.isnan(value):
            return False
        sign = -1 if direction is StudyDirection.MAXIMIZE else 1
        better = sum(sign * rival < sign * value for rival in rivals)
        return better < max(1, (len(rivals) + 1) // self.reduction_factor)


def _value_at(trial: FrozenTrial, rung: int) -> float | None:
    """What the trial first reported at or after a rung."""
    steps = [step for step in trial.intermediate_values if step >= rung]
    return trial.intermediate_values[min(steps)] if steps else None
