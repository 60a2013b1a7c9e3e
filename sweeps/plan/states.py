"""A point as its study sees it, and in one line. Torch-free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.show.status import Status
from harness.store import RunState, Store
from harness.store.points import SEED_FIELDS, Point
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


def describe(point: Point) -> str:
    """A point in one line: sweep, block, slot, and the settings and seeds in which points differ."""
    return f"{point.sweep} {point.block} {settings_of(point)}".rstrip()


def settings_of(point: Point) -> str:
    """Its slot, and the settings and seeds in which the points of its block differ."""
    tuned = [k for k in point.overrides if k.startswith("optimizer.") and k != "optimizer.name"]
    seeds = [k for k in SEED_FIELDS if k in point.overrides]
    words = " ".join(f"{k.removeprefix('optimizer.')}={_short(point.overrides[k])}" for k in tuned + seeds)
    return (f"#{point.slot.rpartition('/')[2]} " if point.slot else "") + words


def _short(value: Any) -> str:
    """A number as in the tables; the draws of a search have sixteen digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
