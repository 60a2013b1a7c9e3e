"""Steps and time that a run needs to reach a target, read from the evaluations in its curve.

A target is reached where the line between two evaluations first crosses it: at the evaluation itself if its
value equals the target. Whether the run later gets worse again does not count. Validation curves are convex
for most of a run, so the line crosses a little too late, and for all runs alike. A curve has no times: the
time is the steps times the mean time of a step of this run, and so belongs to its hardware.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.store.curve import is_row
from harness.system import atomic

Evaluation = tuple[int, float]  # step and value


def evaluations(path: Path, name: str) -> list[Evaluation]:
    """The finite values of a metric in a curve, by step; empty without a file.

    Args:
        path: `metrics.jsonl` of a run. Only the lines that have the metric are parsed: few of many.
        name: of the metric in the curve, such as "val_perplexity".
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    mark = f'"{name}"'.encode()
    rows = atomic.json_objects(line for line in lines if mark in line)
    found = {row["step"]: row[name] for row in rows if is_row(row)}
    return sorted((step, float(value)) for step, value in found.items() if _is_finite(value))


def steps_to(curve: Sequence[Evaluation], target: float, *, higher_is_better: bool) -> float | None:
    """The step at which the target is first reached, interpolated; None if it never is.

    Args:
        curve: evaluations in the order of their steps. If the first one is already good enough, its step
            counts: nothing is known before it.
        target: in the unit of the curve.
        higher_is_better: of the metric.
    """
    sign = -1 if higher_is_better else 1
    before: Evaluation | None = None
    for step, value in curve:
        if sign * value <= sign * target:
            return float(step) if before is None else _crossing(before, (step, value), target)
        before = step, value
    return None


def _crossing(before: Evaluation, after: Evaluation, target: float) -> float:
    """Where the line from a value that misses the target to one that reaches it crosses the target."""
    (first, high), (last, low) = before, after
    return first + (last - first) * (target - high) / (low - high)


def seconds_to(run: Mapping[str, Any], steps: float) -> float | None:
    """The seconds that a run took for so many steps, at its mean time of a step; None if it is not known.

    Args:
        run: a row of the frame. `useful_seconds` are those of updates only, evaluations are left out.
        steps: as `steps_to` gives them.
    """
    seconds, made = run.get("useful_seconds"), run.get("steps")
    if seconds is None or made is None or not made or not math.isfinite(seconds):
        return None
    return float(seconds) * steps / float(made)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
