"""Singular values of updates as curves, whichever runs they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.display import counted
from results.figures.kinds import Point, spread
from results.frames.spectra import Spectra

AXIS, QUANTITY = "rank", "singular value of the update"

_MOST_POINTS = 128  # of a sorted spectrum; more are not visible

Shape = tuple[int, int]


def largest_shape(runs: Iterable[Spectra]) -> Shape:
    """The shape that has the most singular values in all matrices together."""
    shapes: Counter[Shape] = Counter()
    for one in runs:
        for rows in one.updates.values():
            for row in rows.values():
                shapes[row["rows"], row["cols"]] += len(row["update"])
    return shapes.most_common(1)[0][0] if shapes else (0, 0)


def steps(runs: Iterable[Spectra]) -> list[int]:
    """The steps at which runs have recorded their updates."""
    return sorted({step for one in runs for step in one.updates})


def matrices(runs: Iterable[Spectra], step: int, shape: Shape) -> list[list[float]]:
    """The singular values of all matrices of one shape at one step, descending."""
    rows = [row for one in runs for row in one.updates.get(step, {}).values()]
    chosen = [row["update"] for row in rows if (row["rows"], row["cols"]) == shape]
    return [update for update in chosen if update and None not in update]


def points(updates: Sequence[Sequence[float]], runs: Sequence[Spectra]) -> list[Point]:
    """Mean and range at each rank, over matrices and runs; `n` is the number of runs."""
    keys = tuple(one.key for one in runs)
    found = []
    for rank in _ranks(min(map(len, updates))):
        mean, sd, low, high = spread([update[rank - 1] for update in updates])
        found.append(Point(rank, mean, sd, len(runs), keys, low, high))
    return found


def _ranks(length: int) -> list[int]:
    """Ranks from 1 to `length`, equally spaced if they are many."""
    if length <= _MOST_POINTS:
        return list(range(1, length + 1))
    return sorted({1 + round(i * (length - 1) / (_MOST_POINTS - 1)) for i in range(_MOST_POINTS)})


def said(step: int, updates: Sequence[object], runs: int, shape: Shape) -> str:
    """ "step 90, 3 matrices 64 x 64"."""
    count = len(updates) // max(1, runs)
    return f"step {step}, {counted(count, 'matrix', 'matrices')} {shape[0]} x {shape[1]}"
