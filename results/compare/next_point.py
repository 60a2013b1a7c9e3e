"""Would another row win if an optimum at the edge of its grid got one more point?

The rule: a row whose optimum is at the edge can gain by a further point. Between its last two points it
gained g. Around an optimum the curve is convex over an evenly spaced grid, so the next point gains g at
most. The row can overtake the best one only if g is at least the gap between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results.compare.select import Candidate, Choice
from results.compare.summary import metric_summary
from results.frames.metrics import Metric


@dataclass(frozen=True)
class NextPoint:
    """What one more grid point would have to do, in the printed unit of the validation metric.

    Attributes:
        gap: how much the row is behind the best one; 0 for the best itself.
        gained: how much the last step towards the edge gained; None if it is not known.
    """

    gap: float
    gained: float | None

    @property
    def could_win(self) -> bool | None:
        """Whether the row could overtake the best one; None if that is not known."""
        if self.gap == 0:
            return False
        return None if self.gained is None else self.gained >= self.gap


def next_point(choice: Choice, best: Choice, column: str, axes: Iterable[str], metric: Metric) -> NextPoint:
    """What one more point beyond the edge would have to do.

    Args:
        choice: of the row with the optimum at the edge of a grid; it has a validation metric.
        best: that of the row with the best validation metric, see `leader`.
        column: of the edge.
        axes: all columns that were searched.
        metric: on which settings are chosen.
    """
    own, top = _value(choice.winner, metric), _value(best.winner, metric)
    assert own is not None and top is not None
    inner = _value(_neighbour(choice, column, axes), metric)
    gained = None if inner is None else _gain(inner, own, metric)
    return NextPoint(0.0 if choice is best else _gain(own, top, metric), gained)


def leader(choices: Sequence[Choice], metric: Metric) -> Choice | None:
    """The choice with the best validation metric."""
    known = [(value, choice) for choice in choices if (value := _value(choice.winner, metric)) is not None]
    sign = -1 if metric.higher_is_better else 1
    return min(known, key=lambda pair: sign * pair[0])[1] if known else None


def _gain(before: float, after: float, metric: Metric) -> float:
    """How much better the second value is."""
    return after - before if metric.higher_is_better else before - after


def _neighbour(choice: Choice, column: str, axes: Iterable[str]) -> Candidate | None:
    """The candidate next to the winner along a column, among those that agree in all other axes."""
    winner = choice.winner
    assert winner is not None
    others = [axis for axis in axes if axis != column]
    place = winner.value(column)
    near = [
        one
        for one in choice.candidates
        if one is not winner
        and one.value(column) not in (None, place)
        and one.value(column) == one.value(column)
        and all(_same(one.value(axis), winner.value(axis)) for axis in others)
    ]
    return min(near, key=lambda one: abs(one.value(column) - place), default=None)


def _same(a: object, b: object) -> bool:
    return a == b or (a is None or a != a) and (b is None or b != b)


def _value(candidate: Candidate | None, metric: Metric) -> float | None:
    found = metric_summary(candidate.runs, "val", metric) if candidate is not None else None
    return None if found is None else found.mean
