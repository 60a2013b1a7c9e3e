"""What the harness costs: its loop against bare PyTorch that does the same maths, and the start of torch.

Both loops train in one process and take turns step by step: harness, bare, bare, harness, and so on, so that
the drift of the machine cancels from their ratio. Turns of ten steps leave several times as much of it.
"""

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

import models
from harness import tasks
from harness.bench.turns import AT_MOST, RATIO, Benchmark, Measurement
from harness.config import Value
from harness.config.key import resolved
from harness.config.settings import resolve_config, to_yaml
from harness.data.order import permutation
from harness.data.task import Batch
from harness.data.text import Stream, TextTask
from harness.show.note import Note
from harness.show.report import Column, Report, table
from harness.store import Attempt, Store
from harness.store.layout import cache_folder
from harness.system import environment
from harness.train import loop
from harness.train.monitor import Monitor

TASK, MODEL, BATCH_SIZE, LR, WEIGHT_DECAY = "pydocs", "llama-nano", 16, 3e-3, 0.1
WARM_UP, GRAD_CLIP = 0.3, 1.0

# As in sweeps/demo/demo-pydocs.yaml. Harness may not read what lies above it; a test compares.
SETTINGS: dict[str, Value] = {
    "task": TASK,
    "model": MODEL,
    "batch_size": BATCH_SIZE,
    "optimizer.name": "adamw",
    "optimizer.lr": LR,
    "optimizer.weight_decay": WEIGHT_DECAY,
    "schedule.warmup": WARM_UP,
    "grad_clip": GRAD_CLIP,
    "device": "cpu",
}

# The most that we allow ourselves.
OVERHEAD_PERCENT = 2.0
START_UP_SECONDS = 0.2

TORCH_STARTS = 3  # seconds each, and only for comparison
_TORCH_ALONE = "import torch; torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)"

Seconds = tuple[float, float]  # of CPU and of wall clock


# --- a step ---


def bare_loop(task: TextTask, total: int, log_every: int, losses: list[float]) -> Iterator[None]:
    """The run of `SETTINGS` without a harness; pauses after every step.

    Args:
        task: only its tokens and sizes are used.
        total: steps.
        log_every: after this many steps ...
        losses: ... the loss of the last of them is added here.
    """
    epochs = range(math.ceil(total * BATCH_SIZE / task.epoch_size))
    order = np.concatenate([permutation(task.epoch_size, 0, epoch) for epoch in epochs])
    starts = torch.from_numpy(order[: total * BATCH_SIZE]).view(total, BATCH_SIZE, 1) * task.seq_len
    offsets = torch.arange(task.seq_len + 1)
    tokens = torch.from_numpy(cast(Stream, task.rows["train"]).tokens.astype(np.int64))

    torch.manual_seed(0)
    model = models.build(MODEL, **task.model_options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    ramp = round(WARM_UP * total)
    for step in range(total):
        cosine = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - ramp) / (total - ramp)))
        for group in optimizer.param_groups:
            group["lr"] = LR * (step / ramp if step < ramp else cosine)
        windows = tokens[starts[step] + offsets]
        logits = model(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRAD_CLIP)
        optimizer.step()
        if (step + 1) % log_every == 0:
            losses.append(loss.item())
        yield


class Turns:
    """Lets the bare loop have its turns in a run of the harness, and times every step of both.

    A run asks its task for a batch once per step. What lies between two such calls is timed: all that the
    harness does for a step, looks at the loss and metrics file included, evaluation and record left out.
    """

    def __init__(self, batch: Callable[..., Batch], bare: Iterator[None]) -> None:
        self._batch, self._bare = batch, bare
        self.harness: list[Seconds] = []
        self.bare: list[Seconds] = []
        self._began = _clocks()

    def batch(self, step: int, *group: Any) -> Batch:
        """The task's batch; after each odd step of the harness the bare loop makes two steps first."""
        if step > 0:
            self._note(self.harness)
        if step % 2:
            for _ in range(2):
                next(self._bare)
                self._note(self.bare)
        self._began = _clocks()
        return self._batch(step, *group)

    def _note(self, steps: list[Seconds]) -> None:
        cpu, wall = _clocks()
        steps.append((cpu - self._began[0], wall - self._began[1]))
        self._began = _clocks()


def _clocks() -> Seconds:
    return time.process_time(), time.perf_counter()


@dataclass(frozen=True)
class Timing:
    """Mean seconds per step of the two loops, (rounds, 2) as in `Seconds`; `losses` are the bare loop's."""

    harness: npt.NDArray[np.float64]
    bare: npt.NDArray[np.float64]
    losses: list[float]


def interleave(root: Path, rounds: int, log_every: int = 10) -> Timing:
    """Train `SETTINGS` with both loops.

    Args:
        root: an empty store.
        rounds: number of paired ratios; a round before them warms up and is dropped.
        log_every: steps between looks at the loss; a round is two looks long.
    """
    length = 2 * log_every
    total = length * (rounds + 1) + 1  # the last step is followed by the evaluation and not by another one
    config = resolve_config(SETTINGS | {"steps": total, "log_every": log_every})
    run = resolved(config)
    attempt = Store(root).claim(run.key, to_yaml(config))
    assert isinstance(attempt, Attempt)
    losses: list[float] = []
    with attempt:
        training = loop.Training.start(run, attempt, cache_folder(root), Monitor())
        bare = bare_loop(cast(TextTask, training.task), total, log_every, losses)
        turns = Turns(training.task.batch, bare)
        training.task.batch = turns.batch  # type: ignore[method-assign, assignment]
        training.outcome()
    ours, alone = (
        np.reshape(steps, (-1, length, 2)).mean(axis=1)[1:] for steps in (turns.harness, turns.bare)
    )
    return Timing(ours, alone, losses)


def step_measurements(timing: Timing) -> list[Measurement]:
    """Time per step and overhead. CPU time says more than wall time where others use the machine."""
    by_cpu, by_wall = (100 * (timing.harness / timing.bare - 1)).T
    return [
        Measurement.milliseconds("bare PyTorch, CPU", timing.bare[:, 0]),
        Measurement.milliseconds("harness, CPU", timing.harness[:, 0]),
        Measurement.of("overhead, CPU", "%", by_cpu, OVERHEAD_PERCENT),
        Measurement.of("overhead, wall", "%", by_wall, OVERHEAD_PERCENT),
    ]


# --- start-up, and the report ---


def torch_alone(times: int) -> list[float]:
    """Seconds of a fresh interpreter that imports torch and builds one optimizer, `times` times."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", _TORCH_ALONE], check=True)
        seconds.append(time.perf_counter() - began)
    return seconds


def measure(
    root: Path, rounds: int, starts: int, start_up: Callable[[Path, Mapping[str, Value], int], list[float]]
) -> Report:
    """Measure a step and the start of a run.

    Args:
        root: an empty store.
        rounds: as in `interleave`.
        starts: runs that are started.
        start_up: returns the seconds of so many starts of runs with these settings in the store.
    """
    steps = step_measurements(interleave(root, rounds))
    # The pool's server has loaded torch, so all of a start-up lies above that.
    seconds, alone = start_up(root, SETTINGS, starts), torch_alone(TORCH_STARTS)
    figures = [
        *steps,
        Measurement.of("start-up, pool to first step", "s", seconds, START_UP_SECONDS),
        Measurement.of("torch and its first optimizer", "s", alone),
    ]
    return report(environment.describe("cpu", tasks.fingerprint(TASK)), figures)


_COLUMNS = (Column("loop", kind="text"), *RATIO, Column("unit", kind="text", importance=8), AT_MOST)


@dataclass(frozen=True)
class LoopFacts(Benchmark):
    """The report.

    Attributes:
        settings: of the run.
        threads: of the CPU.
        figures: what was measured.
    """

    settings: Mapping[str, Value]
    threads: int
    figures: Sequence[Measurement]


def report(about: Mapping[str, Any], figures: Sequence[Measurement]) -> Report:
    """A line per measurement.

    Args:
        about: the machine.
        figures: what was measured.
    """
    title = f"{MODEL} on {TASK}, {BATCH_SIZE} x {tasks.spec(TASK).seq_len} tokens per step, 1 thread"
    above = [Note("bench_cpu", cpu=about["cpu"], torch=about["torch"])]
    rows = [[figure.name, *figure.cells, figure.unit, figure.verdict] for figure in figures]
    facts = LoopFacts("loop", about, SETTINGS, 1, figures)
    return Report("bench loop", title, [table(_COLUMNS, rows, above=above)], data=facts)
