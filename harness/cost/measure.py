"""What a run takes, from finished runs of its class or from a short measurement. Torch-free.

A run's time is that of its steps, of its passes over held-out data, and of all around them. The measurement
is made by `harness/cost/calibrate.py` in a process of its own, so that its memory is that of a run.
"""

from __future__ import annotations

import hashlib
import json
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.config import RunConfig
from harness.config.settings import to_settings
from harness.cost import runlog
from harness.store import Store
from harness.store.record import RunRecord
from harness.system import atomic, environment
from harness.system.folders import make_folder

PATIENCE = 180.0  # seconds for the measurement of a class
LOOKED_AT = 20  # so many of the latest runs of a class are enough


@dataclass(frozen=True)
class RunClass:
    """What decides how long a step takes; runs that share it cost the same.

    Attributes:
        task: the task.
        model: the model.
        optimizer: the optimizer.
        details: batch size, number formats ... and those hyperparameters that are whole numbers, words or
            switches: real ones (rates, powers) change the numbers, not the work.
    """

    task: str
    model: str
    optimizer: str
    details: tuple[tuple[str, Any], ...]


_DETAILS = ("batch_size", "seq_len", "micro_batch", "processes", "device", "threads", "compile")


def run_class(config: RunConfig | Mapping[str, Any]) -> RunClass:
    """The class of a run by its config, or by that in its record."""
    values = vars(config) if isinstance(config, RunConfig) else config
    rule = _plain(values.get("optimizer"))
    details = {name: values.get(name) for name in _DETAILS} | _plain(values.get("precision"))
    work = {name: value for name, value in rule.get("hyper", {}).items() if isinstance(value, int | str)}
    details |= {f"optimizer.{name}": value for name, value in work.items()}
    return RunClass(values["task"], values["model"], rule["name"], tuple(details.items()))


def _plain(part: Any) -> dict[str, Any]:
    """A part of a config as a dataclass, as in a record, or missing in an older one."""
    return dict(part if isinstance(part, Mapping) else vars(part)) if part is not None else {}


@dataclass(frozen=True)
class Cost:
    """What runs of a class take.

    Attributes:
        parameters: of the model.
        step: seconds of one update, the mean over a run: some optimizers do their dear work now and then.
        evaluation: seconds of one pass over a held-out split.
        overhead_seconds: seconds before the first step and after the last evaluation.
        startup_seconds: seconds that a fresh Python takes before that; a pool has none, as its processes
            are forked.
        peak_memory: bytes, on the GPU if there is one.
        gpu: whether it is a GPU's.
        epoch_size: samples of an epoch; None if not known.
        processor: where it was seen.
        runs: how many finished runs say so; 0: it was measured.
    """

    parameters: int
    step: float
    evaluation: float
    overhead_seconds: float
    startup_seconds: float
    peak_memory: int
    gpu: bool
    epoch_size: float | None
    processor: str
    runs: int = 0

    def steps(self, config: RunConfig) -> int | None:
        """The updates of a run; None if its epochs can't be told in steps."""
        return config.steps if self.epoch_size is None else config.updates(self.epoch_size)

    def seconds(self, config: RunConfig, steps: int) -> float:
        """How long a run takes from its first action to its record."""
        return self.overhead_seconds + steps * self.step + passes(vars(config), steps) * self.evaluation


def passes(config: Mapping[str, Any], steps: int) -> int:
    """How often a run goes over held-out data: both splits at the end, validation now and then before."""
    evaluation = _plain(config.get("evaluation"))
    every = evaluation.get("every", 0)
    return 2 + bool(evaluation.get("untrained")) + ((steps - 1) // every if every else 0)


# --- from finished runs ---


def from_records(store: Store, records: Iterable[RunRecord]) -> dict[RunClass, Cost]:
    """What finished runs tell, by class. Of several processors the one with most runs counts."""
    known: dict[tuple[RunClass, str], list[RunRecord]] = {}
    for record in records:
        if record.status == "completed" and record.steps and "parameters" in record.cost:
            known.setdefault((run_class(record.config), processor(record)), []).append(record)
    costs: dict[RunClass, Cost] = {}
    for (kind, where), seen in sorted(known.items(), key=lambda item: len(item[1])):
        costs[kind] = _from_runs(store, where, seen)
    return costs


def _from_runs(store: Store, where: str, records: Sequence[RunRecord]) -> Cost:
    latest = records[-LOOKED_AT:]
    last = latest[-1]
    epochs = last.config.get("epochs")
    return Cost(
        parameters=int(last.cost["parameters"]),
        step=statistics.median(record.useful_seconds / record.steps for record in records),
        evaluation=_evaluation(store, latest),
        overhead_seconds=0.0,
        startup_seconds=0.0,
        peak_memory=max(record.peak_memory for record in records),
        gpu="gpu" in last.environment,
        epoch_size=last.steps * last.config["batch_size"] / epochs if epochs else None,
        processor=where,
        runs=len(records),
    )


def processor(record: RunRecord) -> str:
    """What a run computed on."""
    return str(record.environment.get("gpu") or record.environment.get("cpu") or "?")


def _evaluation(store: Store, records: Sequence[RunRecord]) -> float:
    """Seconds per pass over held-out data, with its share of all that is no step.

    A record counts the seconds of steps only; how long its run took stands in its log.
    """
    rests = []
    for record in records:
        wall = runlog.seconds(store.run_folder(record.key))
        if wall is not None:
            rests.append((wall - record.useful_seconds) / passes(record.config, record.steps))
    return max(0.0, statistics.median(rests)) if rests else 0.0


# --- from runs under way ---


def from_pace(folders: Iterable[Path]) -> Cost | None:
    """The time of a step, with its share of all the rest, by runs under way; None if they have just begun.

    Args:
        folders: theirs.
    """
    paces = [pace for pace in map(runlog.pace, folders) if pace is not None]
    if not paces:
        return None
    return Cost(0, statistics.median(paces), 0.0, 0.0, 0.0, 0, False, None, "", len(paces))


# --- measured ---


class NotMeasuredError(Exception):
    """A class could not be measured; the message says why."""


def remembered(cache: Path, kind: RunClass) -> Cost | None:
    """What was measured of a class with this code on this machine before."""
    value = atomic.read_json(_place(cache, kind))
    try:
        return Cost(**value) if isinstance(value, dict) else None
    except TypeError:  # written by other code
        return None


def measure(cache: Path, config: RunConfig, keep: bool) -> Cost:
    """Measure a class here.

    Args:
        cache: folder of prepared data.
        config: of any run of the class.
        keep: whether to note the result in `cache`.

    Raises:
        NotMeasuredError: the run fails, or takes longer than PATIENCE.
    """
    before = _prepared(cache)
    cost = _calibrated(cache, config)
    if _prepared(cache) != before:  # the time and memory of preparing data are not those of a run
        cost = _calibrated(cache, config)
    if keep:
        place = _place(cache, run_class(config))
        make_folder(place.parent)
        atomic.write_json(place, asdict(cost))
    return cost


def _prepared(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()}


# As in the command: the working folder, which comes first here, may have modules that are called like ours.
_CALIBRATE = """
import sys
sys.path[:] = [place for place in sys.path if place]
import htbench
from harness.cost.calibrate import main
sys.exit(main())
"""


def _calibrated(cache: Path, config: RunConfig) -> Cost:
    words = [sys.executable, "-c", _CALIBRATE]
    given = json.dumps({"settings": to_settings(config), "cache": str(cache.resolve())})
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
