"""What a run of a class takes, by a short measurement on this machine. Torch-free.

`harness/bench/calibrate.py` measures in a process of its own, so that its memory is that of a run.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from harness import tasks
from harness.config import RunConfig, parts
from harness.config.settings import to_settings
from harness.cost.run_class import Cost, RunClass, run_class
from harness.errors import UsageError
from harness.system import atomic, environment, typed
from harness.system.folders import make_folder

PATIENCE = 180.0  # seconds for the measurement of a class


class NotMeasuredError(Exception):
    """A class could not be measured; the message says why."""


def remembered(cache: Path, kind: RunClass) -> Cost | None:
    """What was measured of a class with this code on this machine before."""
    return typed.made(Cost, atomic.read_json(_place(cache, kind)))  # None also if other code has written it


def measure(cache: Path, config: RunConfig, keep: bool) -> Cost:
    """Measure a class here.

    Args:
        cache: folder of prepared data.
        config: of any run of the class.
        keep: whether to note the result in `cache`.

    Raises:
        NotMeasuredError: data is missing, the run fails, or takes longer than PATIENCE.
    """
    _check_data(cache, config)
    before = _prepared(cache)
    cost = _calibrated(cache, config)
    if _prepared(cache) != before:  # the time and memory of preparing data are not those of a run
        cost = _calibrated(cache, config)
    if keep:
        place = _place(cache, run_class(config))
        make_folder(place.parent)
        atomic.write_json(place, asdict(cost))
    return cost


def _check_data(cache: Path, config: RunConfig) -> None:
    options = tasks.options(config.task, config)
    samples = config.steps and config.steps * config.batch_size
    try:
        tasks.check_ready(config.task, cache, samples, config.seq_len, **options)
    except UsageError as error:
        raise NotMeasuredError(str(error).rstrip(".")) from None


def _prepared(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()}


# As in the command: the working folder, which comes first here, may have modules that are called like ours.
_CALIBRATE = """
import sys
sys.path[:] = [place for place in sys.path if place]
import htbench
from harness.bench.calibrate import main
sys.exit(main())
"""


def _calibrated(cache: Path, config: RunConfig) -> Cost:
    words = [sys.executable, "-c", _CALIBRATE]
    folders = [str(folder) for folder in parts.folders]
    given = json.dumps({"settings": to_settings(config), "cache": str(cache.resolve()), "folders": folders})
    try:
        done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(f"no answer within {PATIENCE:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise NotMeasuredError(said[-1])
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _place(cache: Path, kind: RunClass) -> Path:
    described = repr((kind, environment.code_version(), socket.gethostname()))
    return cache / "costs" / f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.json"
