"""How soon a run of the pool starts, for `htbench bench loop`. Torch-free."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from harness.config import Value
from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.errors import RunFailedError
from harness.store.points import SEARCH, Point
from sweeps.local.pool import Pool


def start_up(root: Path, settings: Mapping[str, Value], starts: int) -> list[float]:
    """Seconds from the pool's `start` to the end of the first step, for runs one after the other.

    Args:
        root: an empty store.
        settings: of the runs; they differ in their seeds.
        starts: how many are measured. A run before them is not: it starts the pool's server and fills the
            data cache.

    Raises:
        RunFailedError: a run ends before its first step.
    """
    # A `htbench sweep run` in a subprocess would be timed together with the plan, the study and the pauses of
    # the runner.
    pool = Pool(root, workers=1)
    run = {**settings, "steps": 10_000, "log_every": 1}
    return [_first_step(pool, run | {"seed": seed}) for seed in range(starts + 1)][1:]


def _first_step(pool: Pool, settings: dict[str, Value]) -> float:
    point = Point("bench", "loop", SEARCH, run_key(resolve_config(settings)), settings)
    began = time.perf_counter()
    pool.start(point)
    try:
        while not pool.steps_done():
            if not pool.running[point.id].ranks.sentinels:
                raise RunFailedError("A run ended before its first step; `htbench run steps=1` says why.")
            time.sleep(0.001)
        return time.perf_counter() - began
    finally:
        pool.stop()
