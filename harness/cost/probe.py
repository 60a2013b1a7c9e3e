"""What a run of a class takes, by a few steps on this machine. Torch-free, but for those steps.

They are an ordinary run, in a process of its own, so that the memory is that of a run, and in a temporary
store.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil

from htbench.harness.config import CheckpointConfig, EvaluationConfig, RunConfig, SpectraConfig, parts
from htbench.harness.config.key import resolved
from htbench.harness.config.limits import check_data
from htbench.harness.config.settings import resolve_config, to_settings
from htbench.harness.cost.run_class import Cost, passes, processor
from htbench.harness.errors import RunFailedError, UsageError
from htbench.harness.store import Store
from htbench.harness.store.layout import cache_folder
from htbench.harness.system.environment import program
from htbench.harness.system.folders import make_folder

# Steps of the run, and seconds for it. All but the first and the last are timed: ten, as some optimizers do
# their dear work every ten steps; one where a step takes too long for that.
TRIES = ((12, 60.0), (3, 180.0))
TINY_LR = 1e-8  # so that nothing diverges, whatever the rate of the sweep


class NotProbedError(Exception):
    """A class could not be measured; the message says why."""


def probe(cache: Path, config: RunConfig) -> Cost:
    """Measure a class here.

    Args:
        cache: folder of prepared data.
        config: of any run of the class.

    Raises:
        NotProbedError: data is missing, the run fails, or takes too long.
    """
    try:
        check_data(config, cache)
    except UsageError as error:
        raise NotProbedError(str(error).rstrip(".")) from None
    make_folder(cache)
    before = {path.name for path in cache.iterdir()}
    cost = _probe_in_process(cache, config)
    if {path.name for path in cache.iterdir()} != before:  # preparing data takes time and memory of its own
        cost = _probe_in_process(cache, config)
    return cost


def _probe_in_process(cache: Path, config: RunConfig) -> Cost:
    words, folders = program(__name__), [str(folder) for folder in parts.folders]
    request = {"settings": to_settings(config), "cache": str(cache.resolve()), "folders": folders}
    for steps, patience in TRIES:
        asked = json.dumps(request | {"steps": steps})
        with contextlib.suppress(subprocess.TimeoutExpired):
            process = subprocess.run(words, input=asked, capture_output=True, text=True, timeout=patience)
            break
    else:
        raise NotProbedError(f"no answer within {patience:g} s")
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        raise NotProbedError(lines[-1])
    return Cost(**json.loads(process.stdout.splitlines()[-1]))


# --- in the process ---


def main() -> int:
    """Read config, steps and folders from standard input, write the cost to standard output."""
    request = json.load(sys.stdin)
    parts.allow(parts.named(request["settings"]), *map(Path, request["folders"]))
    with tempfile.TemporaryDirectory(prefix="htbench-") as folder:
        cache_folder(Path(folder)).symlink_to(request["cache"])
        try:
            cost = _time_run(resolve_config(request["settings"]), Store(folder), request["steps"])
        except (RunFailedError, UsageError) as error:
            cause = error.__cause__
            print(f"{type(cause).__name__}: {cause}" if cause else error, file=sys.stderr)
            return 1
    print(json.dumps(asdict(cost)))
    return 0


def _time_run(config: RunConfig, store: Store, steps: int) -> Cost:
    """What a run of so many steps takes that evaluates before the last of them."""
    from htbench.harness.train.monitor import Monitor  # loads torch
    from htbench.harness.train.run import run

    stepped, evaluated = list[float](), list[float]()  # when steps and evaluations were done
    monitor = Monitor(
        lambda step: stepped.append(time.perf_counter()),
        lambda step, metrics: evaluated.append(time.perf_counter()),
    )
    rule = config.optimizer
    short = replace(
        config,
        optimizer=replace(rule, lr=TINY_LR, aux_lr=rule.aux_lr and TINY_LR),
        steps=steps,
        epochs=None,
        evaluation=EvaluationConfig(every=steps - 1),
        checkpoint=CheckpointConfig(),
        spectra=SpectraConfig(),
        log_every=1,
        replica="probe",
    )
    record = run(resolved(short), store, monitor)
    step, evaluation = (stepped[-2] - stepped[0]) / (steps - 2), evaluated[-1] - stepped[-2]
    alive = time.time() - psutil.Process().create_time()
    return Cost(
        step=step,
        evaluation=evaluation,
        startup_seconds=max(0.0, alive - steps * step - passes(steps, steps - 1) * evaluation),
        peak_memory=record.peak_memory,
        gpu="gpu" in record.environment,
        parameters=int(record.cost["parameters"]),
        processor=processor(record),
    )
