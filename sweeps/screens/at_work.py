"""The runs at work, for `sweep status`: how far each is, where, and whether it still gives a sign of life."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.store import RunState, Store, curve
from harness.store.owner import STALE_SECONDS, seconds_since_touched
from harness.store.points import Point
from sweeps.plan.describe import describe
from sweeps.screens.time_left import Estimate


class Watch:
    """Looks at runs at work.

    Args:
        store: the store.
        estimate: tells how many steps a run has.
    """

    def __init__(self, store: Store, estimate: Estimate) -> None:
        self._store, self._estimate = store, estimate
        self._ahead: float | None = None

    def row(self, point: Point, state: RunState) -> dict[str, Any]:
        """A run at work in plain values; `silent_seconds` have passed since its last sign of life."""
        owner, files = state.owner, self._store.files(point.key)
        return {
            "key": point.key,
            "point": describe(point),
            "step": curve.last_step(files.metrics),
            "steps": self._estimate.steps(point),
            "host": owner.host if owner else "",
            "job": owner.job if owner else "",
            "attempt": state.attempts,
            "silent_seconds": self._silent(files.attempt(state.attempts)),
        }

    def _silent(self, heartbeat: Path) -> int | None:
        """The age of a heartbeat by the clock of its file server, which is asked once; None: it is gone."""
        try:
            touched = os.stat(heartbeat).st_mtime
            if self._ahead is None:
                self._ahead = seconds_since_touched(heartbeat) + touched - time.time()
        except OSError:
            return None
        return max(0, round(time.time() + self._ahead - touched))


def is_silent(run: Mapping[str, Any]) -> bool:
    """Whether a run has stalled: its process exists or its job runs, but it gives no sign of life."""
    return (run.get("silent_seconds") or 0) > STALE_SECONDS


def line(run: Mapping[str, Any]) -> str:
    """A run at work in words."""
    where = f"{run['host'] or 'an unknown host'}{', job ' + run['job'] if run['job'] else ''}"
    again = f", attempt {run['attempt']}" if run["attempt"] > 1 else ""
    silent = f"; no sign of life for {run['silent_seconds']} s" if is_silent(run) else ""
    return f"at work: {run['point']}: step {run['step']} of {run['steps'] or '?'} on {where}{again}{silent}"
