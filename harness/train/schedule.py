"""Schedules as pure functions of the step: of the learning rate, and of any hyperparameter.

The loop multiplies each group's initial lr by the first, and sets a hyperparameter to the second.

Source: the released training script (`torchrun_main_HTMuon.py`): step s is 0-based, so the
first update of a run with warm-up has learning rate 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def warmup_steps(warmup: float, total: int) -> int:
    """`warmup` in steps: below 1 it is a fraction of `total`."""
    return round(warmup * total) if warmup < 1 else int(warmup)


def multiplier(name: str, step: int, total: int, warmup: float, floor: float, decay: float) -> float:
    """The factor on the peak learning rate before update number `step` (0-based) of `total`.

    Args:
        name: `cosine` falls from 1 to `floor` along half a cosine after the warm-up; `constant` stays at 1;
            `wsd` (warm-up, stable, decay) stays at 1, then falls linearly to `floor` over the last `decay`.
        step: number of updates already made.
        total: number of updates of the run.
        warmup: linear warm-up from 0; a fraction of `total` if below 1, else a number of steps.
        floor: the fraction of the peak that remains at the end.
        decay: `wsd` only: fraction of `total`.
    """
    ramp = warmup_steps(warmup, total)
    if step < ramp:
        return step / ramp
    if name == "cosine":
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (step - ramp) / max(1, total - ramp)))
    if name == "wsd":
        tail = max(1, round(decay * total))
        return 1.0 - (1 - floor) * max(0, step - (total - tail)) / tail
    return 1.0


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
