"""What the harness costs: its loop against bare PyTorch that does the same maths; start and parts of a run.

    python benchmarks/loop.py [--rounds 120] [--starts 15] [--runs 5]

Both loops train the demo's AdamW run in one process and take turns step by step (harness, bare, bare,
harness), so that the drift of the machine cancels from their ratio. Turns of ten steps leave several times
as much of it.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))

from htbench import models
from htbench.harness.bench.turns import Measurement
from htbench.harness.config import Value
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config, to_yaml
from htbench.harness.cost.estimate import for_record
from htbench.harness.data.order import permutation
from htbench.harness.data.task import Batch
from htbench.harness.data.text import Stream, TextTask
from htbench.harness.store import Attempt, Store
from htbench.harness.store.layout import cache_folder
from htbench.harness.store.points import SEARCH, Point
from htbench.harness.train import loop
from htbench.harness.train.monitor import Monitor
from htbench.harness.train.run import run
from htbench.sweeps.run.pool import Pool

TASK, MODEL, BATCH_SIZE, LR, WEIGHT_DECAY = "pydocs", "llama-nano", 16, 3e-3, 0.1
WARM_UP, GRAD_CLIP, DEMO_STEPS = 0.3, 1.0, 250
SETTINGS: dict[str, Value] = {  # of adamw in sweeps/demo/demo-pydocs.yaml
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


# --- the start of a run ---


def time_starts(root: Path, starts: int) -> list[float]:
    """Measure the seconds from `Pool.start` to the end of the first step, for one run after the other.

    Args:
        root: an empty store.
        starts: measured runs. One more run comes first and is not counted: in it the pool's server imports
            its modules, and the data cache is filled.
    """
    pool = Pool(root, workers=1)
    return [
        _time_first_step(pool, SETTINGS | {"steps": 10_000, "log_every": 1, "seed": seed})
        for seed in range(starts + 1)
    ][1:]


def _time_first_step(pool: Pool, settings: dict[str, Value]) -> float:
    point = Point("bench", "loop", SEARCH, run_key(resolve_config(settings)), settings)
    began = time.perf_counter()
    pool.start([point])
    try:
        while not pool.steps_done():
            if not pool.running[point.id].ranks.sentinels:
                sys.exit("A run ended before its first step; `htbench run steps=1` says why.")
            time.sleep(0.001)
        return time.perf_counter() - began
    finally:
        pool.stop()


# --- the parts of a run ---


def time_parts(root: Path, runs: int) -> npt.NDArray[np.float64]:
    """Measure whole runs of the demo, all but the start of their processes.

    Args:
        root: an empty store.
        runs: measured ones; one more comes first, which fills the data cache.

    Returns:
        CPU seconds (runs, 3): in steps, in evaluations, in all else (claim, data, model, record).
    """
    spent = {"update": 0.0, "evaluate": 0.0}

    class Timed(loop.Learner):
        """Adds up what its updates and its evaluations take."""

        def update(self, step: int) -> torch.Tensor:
            began = time.process_time()
            loss = super().update(step)
            spent["update"] += time.process_time() - began
            return loss

        def evaluate(self, split: str) -> Any:
            began = time.process_time()
            scores = super().evaluate(split)
            spent["evaluate"] += time.process_time() - began
            return scores

    parts = []
    for seed in range(runs + 1):
        settings = SETTINGS | {"steps": DEMO_STEPS, "evaluation.untrained": True, "seed": seed}
        spent.update(update=0.0, evaluate=0.0)
        began = time.process_time()
        run(resolved(resolve_config(settings)), Store(root), count=for_record, make_learner=Timed)
        whole = time.process_time() - began
        parts.append((spent["update"], spent["evaluate"], whole - sum(spent.values())))
    return np.array(parts[1:])


def time_torch(times: int) -> list[float]:
    """Measure the seconds of so many fresh interpreters that import torch and build one optimizer."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", _TORCH_ALONE], check=True)
        seconds.append(time.perf_counter() - began)
    return seconds


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print a line for each figure: its median and the 95 % interval of the median."""
    parser = argparse.ArgumentParser(description="What the harness costs beside bare PyTorch.")
    parser.add_argument("--rounds", type=int, default=120, help="paired ratios, 40 steps each (default: 120)")
    parser.add_argument("--starts", type=int, default=15, help="runs started from the pool (default: 15)")
    parser.add_argument("--runs", type=int, default=5, help="whole runs of the demo (default: 5)")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        timing = interleave(Path(folder) / "loop", args.rounds)
        starts = time_starts(Path(folder) / "starts", args.starts)
        steps, evaluations, others = time_parts(Path(folder) / "parts", args.runs).T
    by_cpu, by_wall = (100 * (timing.harness / timing.bare - 1)).T
    for figure in (
        Measurement.of("bare PyTorch, CPU", "ms/step", 1e3 * timing.bare[:, 0]),
        Measurement.of("harness, CPU", "ms/step", 1e3 * timing.harness[:, 0]),
        Measurement.of("overhead, CPU", "%", by_cpu),
        Measurement.of("overhead, wall clock", "%", by_wall),
        Measurement.of("start, pool to first step", "s", starts),
        Measurement.of("a demo run: its steps, CPU", "s", steps),
        Measurement.of("its three evaluations, CPU", "s", evaluations),
        Measurement.of("all else of it, CPU", "s", others),
        Measurement.of("torch and its first optimizer", "s", time_torch(3)),
    ):
        interval = f"[{figure.low:.3f}, {figure.high:.3f}]"
        print(f"{figure.name:<30} {figure.median:8.3f} {interval} {figure.unit}, n {figure.n}")


if __name__ == "__main__":
    main()
