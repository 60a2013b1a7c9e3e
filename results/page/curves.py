"""The curves of a run as the page holds them: thinned, then base64 of little-endian float32.

float32 holds steps up to 16 million and seven digits of a loss.
"""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

MOST_POINTS = 240  # of one curve; a chart is some 700 pixels wide
KINDS = {"train": "loss", "val": "val_loss"}  # name on the page -> name in a row of the curve
Point = tuple[int, float]


def curves(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], int]:
    """Each kind of curve that the rows hold, encoded, and how many points they are in all.

    Args:
        rows: of `metrics.jsonl`, sorted by step.
    """
    found = {kind: thinned(list(points(rows, name)), MOST_POINTS) for kind, name in KINDS.items()}
    return ({kind: encoded(own) for kind, own in found.items() if own}, sum(map(len, found.values())))


def points(rows: Iterable[Mapping[str, Any]], name: str) -> Iterable[Point]:
    """Step and value where the value is a finite number."""
    for row in rows:
        value = row.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            yield int(row["step"]), float(value)


def thinned(curve: list[Point], most: int) -> list[Point]:
    """At most `most` points: the ends, and the lowest and the highest of each stretch between them.

    A spike that lasts one step stays visible, which every n-th point would lose.
    """
    if len(curve) <= most:
        return curve
    inner, stretches = curve[1:-1], (most - 2) // 2
    edges = [len(inner) * i // stretches for i in range(stretches + 1)]
    kept = [curve[0]]
    for start, end in zip(edges, edges[1:], strict=False):
        part = sorted(inner[start:end], key=lambda point: point[1])
        kept += sorted({part[0], part[-1]})
    return [*kept, curve[-1]]


def encoded(curve: Sequence[Point]) -> str:
    """All steps, then all values, as base64 of float32."""
    steps, values = zip(*curve, strict=True)
    return base64.b64encode(np.array([*steps, *values], dtype="<f4").tobytes()).decode()
