"""What a run of a class takes, by a short measurement on this machine. Torch-free, but for the measurement.

It trains two tiny runs in a process of its own, so that the memory is that of a run, and in a temporary
store. The first includes what a new process does once; the second is timed. They are ordinary runs, so the
measurement includes everything that training does.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from htbench.harness import tasks
from htbench.harness.config import CheckpointConfig, EvaluationConfig, RunConfig, SpectraConfig, parts
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config, to_settings
from htbench.harness.cost.run_class import Cost, RunClass, passes, processor, run_class
from htbench.harness.errors import RunFailedError, UsageError
from htbench.harness.store import Store
from htbench.harness.store.layout import cache_folder
from htbench.harness.system import atomic, typed
from htbench.harness.system.environment import code_version, program
from htbench.harness.system.folders import make_folder

if TYPE_CHECKING:
    from htbench.harness.store.record import RunRecord

PATIENCE = 180.0  # seconds for the measurement of a class
FEW, MOST = 3, 100  # steps of the first run, and of the second at most
SECONDS = 2.0  # for the steps of the second
ENOUGH = 20.0  # seconds; if the first run takes longer, it is the measurement
_HERE = f"measured on {socket.gethostname()}"
TINY_LR = 1e-8  # so that nothing diverges, whatever the rate of the sweep


class NotMeasuredError(Exception):
    """A class could not be measured; the message says why."""


def remembered(cache: Path, kind: RunClass) -> Cost | None:
    """What was measured of a class with this code on this machine before."""
    # None also if other code has written it
    return typed.make(Cost, atomic.read_json(_name_file(cache, kind)))


def _name_file(cache: Path, kind: RunClass) -> Path:
    described = repr((kind, _HERE, code_version()))
    return cache / "costs" / f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.json"


def measure(cache: Path, config: RunConfig, keep: bool) -> Cost:
    """Measure a class here.

    Args:
        cache: folder of prepared data.
        config: of any run of the class.
        keep: whether to note the result in `cache`.

    Raises:
        NotMeasuredError: data is missing, the run fails, or takes longer than PATIENCE.
    """
    samples = config.steps and config.steps * config.batch_size
    try:
        options = tasks.options(config.task, config)
        tasks.check_ready(config.task, cache, samples, config.seq_len, **options)
    except UsageError as error:
        raise NotMeasuredError(str(error).rstrip(".")) from None
    before = {path.name for path in cache.iterdir()}
    cost = _measure_in_process(cache, config)
    if {path.name for path in cache.iterdir()} != before:  # preparing data takes time and memory of its own
        cost = _measure_in_process(cache, config)
    if keep:
        file = _name_file(cache, run_class(config))
        make_folder(file.parent)
        atomic.write_json(file, asdict(cost))
    return cost


def _measure_in_process(cache: Path, config: RunConfig) -> Cost:
    words, folders = program(__name__), [str(folder) for folder in parts.folders]
    request = json.dumps({"settings": to_settings(config), "cache": str(cache.resolve()), "folders": folders})
    try:
        process = subprocess.run(words, input=request, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(f"no answer within {PATIENCE:g} s") from None
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        raise NotMeasuredError(lines[-1])
    return Cost(**json.loads(process.stdout.splitlines()[-1]))


# --- in the process ---


def main() -> int:
    """Read config and folders from standard input, write the cost to standard output."""
    request = json.load(sys.stdin)
    parts.allow(parts.named(request["settings"]), *map(Path, request["folders"]))
    with tempfile.TemporaryDirectory(prefix="htbench-") as folder:
        cache_folder(Path(folder)).symlink_to(request["cache"])
        try:
            cost = _measure_class(resolve_config(request["settings"]), Store(folder))
        except (RunFailedError, UsageError) as error:
            cause = error.__cause__
            print(f"{type(cause).__name__}: {cause}" if cause else error, file=sys.stderr)
            return 1
    print(json.dumps(asdict(cost)))
    return 0


def _measure_class(config: RunConfig, store: Store) -> Cost:
    record, total, evaluation, step = _time_run(config, store, FEW, log_every=1)
    alive = time.time() - psutil.Process().create_time()
    if alive < ENOUGH:
        steps = round(min(max(FEW, SECONDS / step), MOST))
        record, total, evaluation, _ = _time_run(config, store, steps, log_every=config.log_every)
        step = record.useful_seconds / steps
    around = max(0.0, total - record.steps * step - passes(record.steps, record.steps - 1) * evaluation)
    first = FEW * step + passes(FEW, FEW - 1) * evaluation
    task = tasks.load_for(tasks.spec(config.task), config, cache_folder(store.root))
    return Cost(
        parameters=int(record.cost["parameters"]),
        step=step,
        evaluation=evaluation,
        overhead_seconds=around,
        startup_seconds=max(0.0, alive - around - first),
        peak_memory=record.peak_memory,
        gpu="gpu" in record.environment,
        epoch_size=int(task.epoch_size),
        processor=processor(record),
    )


def _time_run(
    config: RunConfig, store: Store, steps: int, log_every: int
) -> tuple[RunRecord, float, float, float]:
    """Seconds of a run with one evaluation before its last step, of this evaluation, and of the last step."""
    from htbench.harness.train.monitor import Monitor  # loads torch
    from htbench.harness.train.run import run

    arrivals: list[float] = []  # of the losses of steps
    evaluated: list[float] = []  # when the evaluation between steps had ended
    evaluations: list[float] = []

    def note(step: int, metrics: object) -> None:
        evaluated.append(time.perf_counter())
        evaluations.append(evaluated[-1] - arrivals[-1])

    monitor = Monitor(lambda step: arrivals.append(time.perf_counter()), note)
    rule = config.optimizer
    short = replace(
        config,
        optimizer=replace(rule, lr=TINY_LR, aux_lr=rule.aux_lr and TINY_LR),
        steps=steps,
        epochs=None,
        evaluation=EvaluationConfig(every=steps - 1),
        checkpoint=CheckpointConfig(),
        spectra=SpectraConfig(),
        log_every=log_every,
        replica=f"calibration {steps} {log_every}",
    )
    began = time.perf_counter()
    record = run(resolved(short), store, monitor)
    total = time.perf_counter() - began
    return record, total, evaluations[-1], arrivals[-1] - evaluated[-1]
