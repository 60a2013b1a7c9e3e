"""The axes of a search as Optuna's distributions, and labels for the values that Optuna can't hold."""

from __future__ import annotations

import json

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from harness.config import Value
from sweeps.plan.slots import Axis


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
    return json.dumps(value) if "choices" in axis and isinstance(value, list) else value


def value_of(axis: Axis, word: Value) -> Value:
    """The inverse of `label`."""
    for value in axis.get("choices", []):
        if label(axis, value) == word:
            return value
    return word
