"""A point in one line, for progress lines and screens."""

from __future__ import annotations

from typing import Any

from harness.store.points import SEED_FIELDS, Point


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
