"""The states of points, as their studies see them: finished, running, waiting or failed. Torch-free."""

from __future__ import annotations

from collections.abc import Sequence

from harness.show.status import Status
from harness.store import RunState, Store
from harness.store.points import Point
from harness.store.record import RunRecord


def state(store: Store, point: Point) -> RunState:
    """The state of a point, as its study sees it. An empty slot is waiting."""
    return store.state(point.key, point.study) if point.key else RunState(Status.WAITING)


def ended(store: Store, points: Sequence[Point]) -> dict[str, RunRecord]:
    """The records of points that have ended for their studies, by the ids of the points; from the index."""
    records = store.records({point.key for point in points if point.key})
    return {p.id: records[p.key] for p in points if p.key in records and records[p.key].ends(p.study)}


def states(store: Store, points: Sequence[Point]) -> dict[str, RunState]:
    """The states of many points by their ids, from the index as far as possible."""
    records = ended(store, points)
    return {
        p.id: RunState(records[p.id].status, record=records[p.id]) if p.id in records else state(store, p)
        for p in points
    }


def settled(state: RunState) -> bool:
    """Whether a run needs no more work. A failed one gets more only by `retry`."""
    return state.status.is_settled


def word(state: RunState) -> str:
    """The state of a run in one word."""
    return state.status.value
