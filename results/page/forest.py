"""The axis of a forest plot: the distance of every row to the best one, with its interval, on one scale."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from htbench.harness.show.note import Note
from htbench.results.compare.judge import Kind
from htbench.results.tables.answer import Answer, Place

_FARTHEST = 3  # medians of the intervals' upper ends: one hopeless row may not squeeze all others
_BESIDE = 0.05  # of the width, left free at either end
_TICKS = 5  # at most about so many


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, in the unit of the distances; 0 lies between them."""

    low: float
    high: float

    @classmethod
    def of(cls, places: Iterable[Place]) -> Axis | None:
        """The axis of an answer's rows; None if none of them has a distance."""
        ends = [(one.low, one.high) for one in places if one.low is not None and one.high is not None]
        known = [(low, high) for low, high in ends if math.isfinite(high - low)]
        if not known:
            return None
        lows, highs = zip(*known, strict=True)
        most = max(min(max(highs), _FARTHEST * statistics.median(highs)), 0.0)
        least = max(min(0.0, *lows), -most)
        beside = _BESIDE * (most - least)
        return cls(least - beside, most + beside)

    def at(self, value: float) -> str:
        """Where a value stands, in percent of the width; beyond an end it stands at it."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(max(share, 0.0), 1.0):.4g}%"

    def holds(self, value: float) -> bool:
        """Whether a value lies on the axis."""
        return self.low <= value <= self.high

    @property
    def ticks(self) -> list[float]:
        """A few round values on it, 0 among them."""
        size = 10.0 ** math.floor(math.log10((self.high - self.low) / _TICKS))
        step = next(size * times for times in (1, 2, 5, 10) if self.high - self.low <= _TICKS * size * times)
        return [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


_TELLS = {"open_seeds": "seeds", "open_search": "searched", "open_test_set": "items"}


def outlook(place: Place, answer: Answer) -> str:
    """What would tell the best row from those that are tied with it, if that is one thing; else empty."""
    told = [note for note in answer.open if note.kind in _TELLS and None not in note["needed"]]
    if place.kind is not Kind.BEST or len(answer.open) != 1 or not told:
        return ""
    needed = dict.fromkeys(_TELLS.values(), 0) | {_TELLS[told[0].kind]: max(told[0]["needed"])}
    return str(Note("place_told", what=told[0]["what"], **needed))


def words(place: Place, answer: Answer) -> str:
    """What stands beside the marks of a row: its distance to the best with the interval, or why none."""
    digits, rivals = answer.metric.digits, [one for one in answer.places if one.kind is not None]
    if place.gap is not None:
        ends = [f"{end:.{digits}f}" for end in (place.low, place.high) if end is not None]
        return " ".join([f"{place.gap:+.{digits}f}", *([f"[{', '.join(ends)}]"] if len(ends) == 2 else [])])
    if place.kind is Kind.BEST and len(rivals) > 1:
        ties = [one.name for one in answer.ties]
        few = ties if len(ties) == 1 else []
        return str(Note("place_tied", names=few, count=0 if few else len(ties))) if ties else "best"
    state = place.value.state
    return "" if state is None else str(Note(f"status_{state}"))
