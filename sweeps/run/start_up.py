"""How long a run in the local pool takes to its first step, for `htbench bench loop`. Torch-free."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from harness.config import Value
from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.errors import RunFailedError
from harness.store.points import SEARCH, Point
from sweeps.run.pool import Pool


def start_up(root: Path, settings: Mapping[str, Value], starts: int) -> list[float]:
    """Measure the seconds from `Pool.start` to the end of the first step, for one run after the other.

    Args:
        root: an empty store.
        settings: of the runs; each run has another seed.
        starts: number of measured runs. One more run comes first and is not counted: during it the pool's
            server imports its modules and the data cache is filled.

    Returns:
        seconds, one value per measured run.

    Raises:
        RunFailedError: a run ends before its first step.
    """
    # The pool is used directly: the time of `htbench sweep run` would include the plan, the study and the
    # runner's pauses.
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
