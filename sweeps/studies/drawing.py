"""How the next trial of a study is drawn, its axes as Optuna has them, and which trials are stopped early.

A draw is a function of the seed, the number of the trial and the trials of the study; a decision to stop is a
function of the reports of the trials. Neither depends on the memory of a process: a search that was killed
goes on as it would have, and any worker can take the next step.
"""

import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from htbench.harness.config import Value
from htbench.harness.store.study import Axis, Study

TRIES = 20  # draws of `NoRepeats` before it takes the first setting that is new


# --- axes ---


def make_axis(values: Collection[Value]) -> Axis:
    """The axis of a grid with these values: numbers from the least to the greatest, all else as choices.

    The ends are those of the grid. Optuna's estimates of importance are taken over the whole of an axis: on
    one that is far wider than its values, PED-ANOVA finds all axes alike and fANOVA gives up.
    """
    numbers = [value for value in values if type(value) in (int, float) and math.isfinite(value)]
    if len(numbers) < len(values):
        return {"choices": list({repr(value): value for value in values}.values())}
    whole = all(type(value) is int for value in values)
    # The middle value shows whether they are rather spaced by ratios than by differences.
    low, high, middle = min(numbers), max(numbers), statistics.median(set(numbers))
    log = low > 0 and abs(middle - math.sqrt(low) * math.sqrt(high)) < abs(middle - (low + high) / 2)
    return {"low": low, "high": high, "log": log, "whole": whole}


def make_distribution(axis: Axis) -> BaseDistribution:
    """The Optuna distribution of an axis."""
    if "choices" in axis:
        return CategoricalDistribution([encode_value(axis, value) for value in axis["choices"]])
    if axis["whole"]:
        return IntDistribution(int(axis["low"]), int(axis["high"]), log=axis["log"])
    return FloatDistribution(axis["low"], axis["high"], log=axis["log"])


def encode_value(axis: Axis, value: Value) -> Value:
    """A value as Optuna takes it. A list, such as betas, can't be a choice, so its JSON is."""
    return json.dumps(value) if "choices" in axis and isinstance(value, list | tuple) else value


def decode_value(axis: Axis, code: Value) -> Value:
    """The inverse of `encode_value`."""
    return next((value for value in axis.get("choices", []) if encode_value(axis, value) == code), code)


# --- samplers ---


def make_sampler(study: Study, number: int) -> BaseSampler:
    """The sampler of trial `number`."""
    seed = int(hashlib.sha256(f"{study.seed} {study.name} {number}".encode()).hexdigest()[:8], 16)
    if study.mode == "sobol":
        return Sobol(study, number)
    if study.mode == "random":
        return RandomSampler(seed)
    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


class Sobol(RandomSampler):
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

        super().__init__()
        seed = int(hashlib.sha256(f"{study.seed} {study.name}".encode()).hexdigest()[:8], 16)
        sequence = qmc.Sobol(len(study.axes), scramble=True, seed=seed)
        if number:  # SciPy refuses 0
            sequence.fast_forward(number)
        self._parts = dict(zip(study.axes, sequence.random(1)[0].tolist(), strict=True))

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The coordinate of the point that belongs to the parameter."""
        return interpolate(param_distribution, self._parts[param_name])


def interpolate(distribution: BaseDistribution, part: float) -> Any:
    """The value at the fraction `part` of a distribution; whole numbers and choices get equal shares."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(part * len(distribution.choices))]
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    low, high, log = distribution.low, distribution.high, distribution.log
    if isinstance(distribution, FloatDistribution):
        value = low * (high / low) ** part if log else low + part * (high - low)
    elif log:
        value = round((low - 0.5) * ((high + 0.5) / (low - 0.5)) ** part)
    else:
        value = low + int(part * (high - low + 1))
    return min(max(value, low), high)  # rounding may step over the ends


# --- draws without repetition ---


class NoRepeats(BaseSampler):
    """Draws all axes at once, and again if another trial has the same settings.

    Samplers repeat themselves over choices and whole numbers. A repeated trial is a run that has a result
    already, so the optimizer would be tuned on fewer settings than `trials` says.

    Args:
        inner: the sampler that draws; a second draw takes its next random numbers.
        axes: all parameters of a trial.
    """

    def __init__(self, inner: BaseSampler, axes: Mapping[str, BaseDistribution]) -> None:
        self._inner, self._axes = inner, dict(axes)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Every axis, whatever the study knows."""
        return self._axes

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The first of some draws that is new, else the first new one in order, else a repeated one."""
        trials = study.get_trials(deepcopy=False)
        tried = [other.params for other in trials if other.number != trial.number]
        draws = (self._draw(study, trial) for _ in range(TRIES))
        settings = itertools.chain(draws, _list_settings(self._axes, len(tried) + 1))
        new = (setting for setting in settings if setting not in tried)
        return next(new, None) or self._draw(study, trial)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A draw of `inner`. It is not called, since `sample_relative` draws all axes."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def _draw(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        inner = self._inner
        drawn = inner.sample_relative(study, trial, inner.infer_relative_search_space(study, trial))
        return {
            name: drawn[name] if name in drawn else inner.sample_independent(study, trial, name, axis)
            for name, axis in self._axes.items()
        }


def _list_settings(axes: Mapping[str, BaseDistribution], count: int) -> Iterator[dict[str, Any]]:
    """The settings made of the first `count` values of each axis; none if an axis is continuous."""
    values: list[Sequence[Any]] = []
    for axis in axes.values():
        if isinstance(axis, IntDistribution):
            values.append(range(axis.low, axis.high + 1)[:count])
        else:
            values.append(axis.choices[:count] if isinstance(axis, CategoricalDistribution) else ())
    return (dict(zip(axes, row, strict=True)) for row in itertools.product(*values))


# --- which trials are stopped early ---


def make_pruner(study: Study) -> BasePruner:
    """The pruner of a study."""
    options = study.pruner_options
    if study.pruner == "asha":
        return Asha(**options)
    if study.pruner == "median":
        return MedianPruner(options["startup_trials"], options["warmup_steps"])
    return NopPruner()


class Asha(BasePruner):
    """Asynchronous successive halving: of the trials at each rung the best fraction goes on.

    Rung i is at step min_resource * reduction_factor^i.

    A trial that arrives at a rung goes on if it is among the best 1 / reduction_factor of all that have
    arrived there so far, itself included, or the best of fewer than reduction_factor.

    Source: Li et al., A System for Massively Parallel Hyperparameter Tuning, 2020,
    https://arxiv.org/abs/1810.05934. The paper pauses a trial and may promote it later; here, as in Optuna's
    SuccessiveHalvingPruner, it ends. Optuna's stores each decision in the trial: the decision is lost
    when the process dies before that, and all are when a study is rebuilt. Ours needs the reports only.

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
        others = [other for other in study.get_trials(deepcopy=False) if other.number != trial.number]
        sign = -1 if study.direction is StudyDirection.MAXIMIZE else 1
        rung = self.min_resource
        while rung <= trial.last_step:
            if rung > before:
                # The first report of each other trial at or after the rung.
                later = [{s: v for s, v in o.intermediate_values.items() if s >= rung} for o in others]
                rivals = [values[min(values)] for values in later if values]
                better = sum(sign * rival < sign * value for rival in rivals)
                if math.isnan(value) or better >= max(1, (len(rivals) + 1) // self.reduction_factor):
                    return True
            rung *= self.reduction_factor
        return False
