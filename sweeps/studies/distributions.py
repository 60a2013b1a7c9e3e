"""Axes as Optuna's distributions, and labels for the values that Optuna can't hold."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from harness.config import Value
from sweeps.plan.slots import Axis


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
