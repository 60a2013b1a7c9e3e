"""Measures the time and memory of a run of some class; `harness/cost/measure.py` starts it as a process.

It trains two tiny runs in a temporary store. The first includes what a new process does once; the second is
timed. They are ordinary runs, so the measurement includes everything that training does.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import psutil

from harness import tasks
from harness.config import CheckpointConfig, EvaluationConfig, RunConfig, SpectraConfig, parts
from harness.config.settings import resolve_config
from harness.cost.run_class import Cost, passes, processor
from harness.errors import RunFailedError, UsageError
from harness.store import Store
from harness.store.layout import cache_folder
from harness.store.record import RunRecord
from harness.train.monitor import Monitor
from harness.train.run import run

FEW, MOST = 3, 100  # steps of the first run, and of the second at most
SECONDS = 2.0  # for the steps of the second
ENOUGH = 20.0  # seconds; if the first run takes longer, it is the measurement
TINY_LR = 1e-8  # so that nothing diverges, whatever the rate of the sweep


class Clock(Monitor):
    """Notes when the losses of steps had arrived, and when the evaluation between steps had ended."""

    def __init__(self) -> None:
        super().__init__(self._progress, self._evaluation)
        self.arrivals: list[float] = []
        self.evaluated = self.evaluation = 0.0

    def _progress(self, step: int) -> None:
        self.arrivals.append(time.perf_counter())

    def _evaluation(self, step: int, metrics: Mapping[str, float | None]) -> None:
        self.evaluated = time.perf_counter()
        self.evaluation = self.evaluated - self.arrivals[-1]


def calibrate(config: RunConfig, store: Store) -> Cost:
    """Measure a run with this config.

    Args:
        config: of any run of the class.
        store: an empty one.
    """
    clock, record, total = _timed(config, store, FEW, log_every=1)
    alive = time.time() - psutil.Process().create_time()
    step = clock.arrivals[-1] - clock.evaluated
    if alive < ENOUGH:
        steps = round(min(max(FEW, SECONDS / step), MOST))
        clock, record, total = _timed(config, store, steps, log_every=config.log_every)
        step = record.useful_seconds / steps
    around = total - record.steps * step - passes(record.config, record.steps) * clock.evaluation
    warm = max(0.0, around) + FEW * step + passes({"evaluation": vars(_early(FEW))}, FEW) * clock.evaluation
    return Cost(
        parameters=int(record.cost["parameters"]),
        step=step,
        evaluation=clock.evaluation,
        overhead_seconds=max(0.0, around),
        startup_seconds=max(0.0, alive - warm),
        peak_memory=record.peak_memory,
        gpu="gpu" in record.environment,
        epoch_size=_epoch_size(config, store),
        processor=processor(record),
    )


def _epoch_size(config: RunConfig, store: Store) -> int:
    task = tasks.build(
        config.task,
        cache=cache_folder(store.root),
        batch_size=config.batch_size,
        seq_len=config.seq_len,
        data_seed=config.data_seed,
        **tasks.options(config.task, config),
    )
    return int(task.epoch_size)


def _timed(config: RunConfig, store: Store, steps: int, log_every: int) -> tuple[Clock, RunRecord, float]:
    rule = config.optimizer
    rule = replace(rule, lr=TINY_LR, aux_lr=rule.aux_lr and TINY_LR)
    short = replace(
        config,
        optimizer=rule,
        steps=steps,
        epochs=None,
        evaluation=_early(steps),
        checkpoint=CheckpointConfig(),
        spectra=SpectraConfig(),
        log_every=log_every,
        replica=f"calibration {steps} {log_every}",
    )
    clock, began = Clock(), time.perf_counter()
    record = run(short, store, clock)
    return clock, record, time.perf_counter() - began


def _early(steps: int) -> EvaluationConfig:
    """One evaluation before the last step, besides those of the end."""
    return EvaluationConfig(every=steps - 1)


def main() -> int:
    """Read config and folders from standard input, write the cost to standard output."""
    given = json.load(sys.stdin)
    parts.allow(parts.named(given["settings"]), *map(Path, given["folders"]))
    with tempfile.TemporaryDirectory(prefix="htbench-") as folder:
        cache_folder(Path(folder)).symlink_to(given["cache"])
        try:
            cost = calibrate(resolve_config(given["settings"]), Store(folder))
        except RunFailedError as error:
            cause = error.__cause__
            print(f"{type(cause).__name__}: {cause}" if cause else error, file=sys.stderr)
            return 1
        except UsageError as error:
            print(error, file=sys.stderr)
            return 1
    print(json.dumps(asdict(cost)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
