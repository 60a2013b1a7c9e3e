"""`htbench bench`, and what of it lies here: how long a run in the local pool takes to its first step.

Torch-free.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

from harness.commands.bench import add_arguments, measure
from harness.config import Value
from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.errors import EXIT_OK, RunFailedError
from harness.store.points import SEARCH, Point
from sweeps.run.pool import Pool


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    """SUBJECT and how to measure it."""
    add_arguments(parser)


def bench(args: argparse.Namespace) -> int:
    """Measure and print."""
    measure(args, start_up)
    return EXIT_OK


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
