"""How the next trial of a study is drawn, and its axes as Optuna's distributions.

A draw is a function of the seed, the number of the trial and what the study knows, and of nothing in the
memory of a process: a search that was killed goes on as it would have, and any worker can take the next step.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Collection, Iterator, Mapping
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

from harness.config import Value
from sweeps.plan.slots import Axis, Study

TRIES = 20  # draws of `NoRepeats` before it takes the first setting that is new


# --- axes ---


def axis_of(values: Collection[Value]) -> Axis:
    """The axis of a grid with these values: numbers from the least to the greatest, all else as choices.

    The ends are those of the grid. Optuna's estimates of importance are taken over the whole of an axis: on
    one that is far wider than its values, PED-ANOVA finds all axes alike and fANOVA gives up.
    """
    numbers = [value for value in values if type(value) in (int, float) and math.isfinite(value)]
    if len(numbers) < len(values):
        return {"choices": list({repr(value): value for value in values}.values())}
    whole = all(type(value) is int for value in values)
    return {"low": min(numbers), "high": max(numbers), "log": _in_ratios(numbers), "whole": whole}


def _in_ratios(values: Collection[float]) -> bool:
    """Whether values are rather spaced by ratios than by differences, as their middle one shows."""
    low, high, middle = min(values), max(values), statistics.median(set(values))
    return low > 0 and abs(middle - math.sqrt(low) * math.sqrt(high)) < abs(middle - (low + high) / 2)


def distribution(axis: Axis) -> BaseDistribution:
    """The Optuna distribution of an axis."""
    if "choices" in axis:
        return CategoricalDistribution([label(axis, value) for value in axis["choices"]])
    if axis["whole"]:
        return IntDistribution(axis["low"], axis["high"], log=axis["log"])
    return FloatDistribution(axis["low"], axis["high"], log=axis["log"])


def suggest(trial: optuna.Trial, name: str, axis: Axis) -> Value:
    """The parameter of a trial on one axis, drawn now unless it has been."""
    if "choices" in axis:
        return trial.suggest_categorical(name, [label(axis, value) for value in axis["choices"]])
    if axis["whole"]:
        return trial.suggest_int(name, axis["low"], axis["high"], log=axis["log"])
    return trial.suggest_float(name, axis["low"], axis["high"], log=axis["log"])


def label(axis: Axis, value: Value) -> Value:
    """A value as Optuna takes it. A list, such as betas, can't be a choice, so its JSON is."""
    return json.dumps(value) if "choices" in axis and isinstance(value, list | tuple) else value


def value_of(axis: Axis, word: Value) -> Value:
    """The inverse of `label`."""
    for value in axis.get("choices", []):
        if label(axis, value) == word:
            return value
    return word


# --- samplers ---


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
        known = [one.params for one in trials if one.number != trial.number]
        draws = (self._draw(study, trial) for _ in range(TRIES))
        new = (setting for setting in draws if setting not in known)
        rest = (setting for setting in _first(self._axes, len(known) + 1) if setting not in known)
        return next(itertools.chain(new, rest), None) or self._draw(study, trial)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """As `inner` does it. It is not called, since `sample_relative` draws all axes."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def _draw(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        inner = self._inner
        drawn = inner.sample_relative(study, trial, inner.infer_relative_search_space(study, trial))
        return {
            name: drawn[name] if name in drawn else inner.sample_independent(study, trial, name, axis)
            for name, axis in self._axes.items()
        }


def _first(axes: Mapping[str, BaseDistribution], count: int) -> Iterator[dict[str, Any]]:
    """The settings made of the first `count` values of each axis; none if an axis is continuous."""
    values = [_values(axis)[:count] for axis in axes.values()]
    return (dict(zip(axes, row, strict=True)) for row in itertools.product(*values))


def _values(axis: BaseDistribution) -> range | tuple[Any, ...]:
    if isinstance(axis, IntDistribution):
        return range(axis.low, axis.high + 1)
    return axis.choices if isinstance(axis, CategoricalDistribution) else ()
