"""Draws without repetition: no two trials of a study have the same settings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

TRIES = 20


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
