"""When a run is as good as Muon: the one definition of a time to a target, for tables and figures.

The target of a run is the validation metric with which Muon's run of the same seeds ends. It is reached at
the first evaluation that is at least as good; whether the run later gets worse again does not count. So the
paper counts: HTMuon_NS takes 0.64 of its 0.71 hours and 1.32 of its 1.55, which are 9 and 17 evaluations of
10 and 20 that stand 1,000 steps apart. A curve has no times: the time is the steps times the mean time of a
step of this run, and so belongs to its hardware.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.config.programs import RULE
from htbench.harness.store import curve

Evaluation = tuple[int, float]  # step and value
Seeds = tuple[int, int]  # of the weights and of the data
Row = Mapping[str, Any]


def read_seeds(run: Row) -> Seeds:
    """The seeds by which runs are paired with those of other rows.

    Equal seeds of a program need not mean equal data, unless its file says so: they pair nothing.
    """
    is_paired = run.get("rule") != RULE or run.get("paired") is True
    return run["seed"], run["data_seed"] if is_paired else int(run["candidate"], 16)


def find_targets(
    reference: Iterable[Row], end: Callable[[Row], float | None], *, higher_is_better: bool
) -> dict[Seeds, float]:
    """What a run of the same seeds has to reach: where a run of reference ends, of several the worst.

    Args:
        reference: rows of the frame, Muon's.
        end: the metric of a row; None if it has none.
        higher_is_better: of the metric.
    """
    worst = min if higher_is_better else max
    targets: dict[Seeds, float] = {}
    for run in reference:
        value = end(run)
        if value is not None:
            targets[read_seeds(run)] = worst(value, targets.get(read_seeds(run), value))
    return targets


def read_evaluations(
    path: Path, name: str, value: Callable[[Row], float | None] | None = None
) -> list[Evaluation]:
    """The finite values of a metric in a curve, by step; empty without a file.

    Args:
        path: `metrics.jsonl` of a run. Only the lines that have the metric are parsed: few of many.
        name: of the metric in the curve, such as "val_perplexity".
        value: makes the value of a line that has the metric; None: it is the metric.
    """
    by_step = {row["step"]: value(row) if value else row.get(name) for row in curve.read(path, f'"{name}"')}
    return sorted(
        (step, float(figure))
        for step, figure in by_step.items()
        if isinstance(figure, int | float) and math.isfinite(figure)
    )


def find_steps_to(curve: Sequence[Evaluation], target: float, *, higher_is_better: bool) -> float | None:
    """The step of the first evaluation that reaches the target; None if none does.

    Args:
        curve: evaluations in the order of their steps.
        target: in the unit of the curve.
        higher_is_better: of the metric.
    """
    sign = -1 if higher_is_better else 1
    return next((float(step) for step, value in curve if sign * value <= sign * target), None)


def estimate_seconds(run: Row, steps: float) -> float | None:
    """The seconds that a run took for so many steps, at its mean time of a step; None if it is not known.

    Args:
        run: a row of the frame. `useful_seconds` are those of updates only, evaluations are left out.
        steps: as `find_steps_to` gives them.
    """
    seconds, steps_made = run.get("useful_seconds"), run.get("steps")
    if seconds is None or steps_made is None or not steps_made or not math.isfinite(seconds):
        return None
    return float(seconds) * steps / float(steps_made)
