"""Schedules as pure functions of the step: of the learning rate, and of any hyperparameter.

The loop multiplies each group's initial lr by the first, and sets a hyperparameter to the second.

Source: the released training script (`torchrun_main_HTMuon.py`): step s is 0-based, so the
first update of a run with warm-up has learning rate 0.
"""

import math
from collections.abc import Mapping
from typing import Any

from htbench.harness.config.schema import ScheduleConfig


def warmup_steps(warmup: float, total: int) -> int:
    """`warmup` in steps: below 1 it is a fraction of `total`."""
    return round(warmup * total) if warmup < 1 else int(warmup)


def cooldown(decay: float, total: int) -> int:
    """The first update (0-based) of the cooldown of `wsd` and `power`; it still has the rate before it."""
    return total - max(1, round(decay * total))


def multiplier(rule: ScheduleConfig, step: int, total: int) -> float:
    """The factor on the peak learning rate before update number `step` (0-based) of `total`.

    Args:
        rule: its linear `warmup` from 0 is a fraction of `total` if below 1, else a number of steps. Then
            `cosine` falls from 1 to `floor` along half a cosine, `linear` along a line, both over the rest
            of the run; `constant` stays at 1; `wsd` (warm-up, stable, decay) stays at 1, `power` falls as
            (warmup / step)^exponent, and both go linearly to `floor` over the last `decay` of the run, the
            cooldown; `piecewise` leads from 1 through `factors` at the fractions `at` of the run.
        step: number of updates already made.
        total: number of updates of the run.

    Sources: `wsd`, https://arxiv.org/abs/2404.06395; `power` with exponent .5 is Noam's rule,
    https://arxiv.org/abs/1706.03762, with .51 and a cooldown the power scheduler,
    https://arxiv.org/abs/2408.13359.
    """
    ramp = warmup_steps(rule.warmup, total)
    if step < ramp:
        return step / ramp
    part = (step - ramp) / max(1, total - ramp)
    if rule.name == "cosine":
        return rule.floor + (1 - rule.floor) * 0.5 * (1 + math.cos(math.pi * part))
    if rule.name == "linear":
        return 1 - (1 - rule.floor) * part
    if rule.name == "piecewise":
        return _through(rule, step / total, ramp / total)
    if rule.name == "constant":
        return 1.0
    begin, height = cooldown(rule.decay, total), 1.0
    if rule.name == "power":
        begin = max(begin, ramp)
        height = (max(1, ramp) / max(1, min(step, begin))) ** rule.exponent
    return height - max(0.0, height - rule.floor) * max(0, step - begin) / (total - begin)


def _through(rule: ScheduleConfig, at: float, start: float) -> float:
    """The factor at a fraction of the run, on lines from 1 at `start` through the points of `piecewise`."""
    passed = [point for point in zip(rule.at, rule.factors, strict=True) if point[0] <= at]
    coming = [point for point in zip(rule.at, rule.factors, strict=True) if point[0] > at]
    left, first = passed[-1] if passed else (start, 1.0)
    right, last = coming[0] if coming else (1.0, first)
    return first + (last - first) * (at - left) / (right - left) if coming else first


def value(rule: Mapping[str, Any], step: int, total: int) -> float:
    """The value of a hyperparameter before update number `step` (0-based) of `total`.

    Args:
        rule: `name`, `from`, `to`, and the parts of the shape: `linear` and half a `cosine` lead from `from`
            to `to` between the fractions `start` and `end` of the run; `sigmoid` is half-way at the fraction
            `centre`, and away from it tends to the ends on the scale of `width`.
        step: number of updates already made.
        total: number of updates of the run.

    Source of the sigmoid: DynMuon, https://arxiv.org/abs/2605.17109.
    """
    at = step / total
    if rule["name"] == "sigmoid":
        part = _logistic((at - rule["centre"]) / rule["width"])
    else:
        part = min(1.0, max(0.0, (at - rule["start"]) / (rule["end"] - rule["start"])))
        part = (1 - math.cos(math.pi * part)) / 2 if rule["name"] == "cosine" else part
    first, last = float(rule["from"]), float(rule["to"])
    return (1 - part) * first + part * last


def _logistic(x: float) -> float:
    """1 / (1 + exp(-x)) without overflow."""
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))
