"""The progress of runs: a bar with an ETA on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

from harness import tasks
from harness.store import RunState
from harness.store.points import Point
from sweeps.plan.describe import describe


class Progress:
    """Shows progress in updates, because runs differ in length.

    Args:
        quiet: show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar: tqdm[None] | None = None
        self._total = self._done = 0
        self._began = time.monotonic()

    def expect(self, steps: int) -> None:
        """Begin; as far as is known, `steps` updates are to be made."""
        self._total, self._began = steps, time.monotonic()
        if steps and sys.stderr.isatty() and not self._quiet:
            self._bar = tqdm(total=steps, unit="step", unit_scale=True, dynamic_ncols=True, smoothing=0.05)

    def at(self, live: int) -> None:
        """Show that the runs at work have made `live` updates."""
        if self._bar is not None:
            self._bar.update(min(self._done + live, self._total) - self._bar.n)

    def ended(self, point: Point, state: RunState, steps: int, left: int) -> None:
        """Show that a run of so many updates has ended, and that `left` are to be made by others.

        That is less than was expected if replicas are there already, or an objective has no winner.
        """
        self._done += steps
        self._total = self._done + left
        line = f"{describe(point)}: {outcome(state)}"
        if self._bar is not None:
            self._bar.total = self._total
            self._bar.set_postfix_str(f"{point.sweep} {point.block}", refresh=False)
            if state.reason:
                self._bar.write(line, file=sys.stderr)
        elif not self._quiet:
            print(f"[{self._eta()}] {line}", file=sys.stderr, flush=True)

    def _eta(self) -> str:
        if not self._done or not self._total:
            return "ETA ?"
        left = (time.monotonic() - self._began) * max(0, self._total - self._done) / self._done
        return f"{min(100, 100 * self._done // self._total):3d} %, ETA {int(left // 60)}:{int(left % 60):02d}"

    def close(self) -> None:
        """End; the bar stays on the screen."""
        if self._bar is not None:
            self._bar.close()


def outcome(state: RunState) -> str:
    """How a run ended, in a few words."""
    record = state.record
    if record is None:
        return f"failed ({state.reason}): {state.message}"
    if record.status != "completed":
        return f"{record.status}: {record.note}"
    metric = tasks.recorded(record.config["task"], record.environment).metric
    value = record.metrics.get(f"val_{metric}")
    shown = "not finite" if value is None else f"{value:.4g}"
    return f"val {metric} {shown} in {record.useful_seconds:.1f} s"
