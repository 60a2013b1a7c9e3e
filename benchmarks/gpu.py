"""What a GPU tells within the minutes of a short loan, in parts, each a process with a file of its own.

    python benchmarks/gpu.py --minutes 12 --out DIR

A part writes a line of JSON into DIR/PART.jsonl after each fact, so one that lacks memory, crashes or takes
too long costs what it has not written yet. The last line says how it ended. Repeating the command measures
the parts that are not done. Without a GPU the same parts run on the CPU with tiny models: to try the program.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from htbench import optimizers
from htbench.harness.bench.optimizers import Bench, Row, Settings
from htbench.harness.bench.subjects import entry
from htbench.harness.bench.turns import clock_of
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.data.task import SPLITS
from htbench.harness.data.text import TextTask
from htbench.harness.errors import reason
from htbench.harness.show.numbers import plain
from htbench.harness.system import checks, environment, finding
from htbench.harness.train.learner import Learner
from htbench.optimizers import UpdateRule

# --- what the machine has ---


@dataclass(frozen=True)
class Machine:
    """Versions and hardware; of a GPU its memory in bytes and its multiprocessors, too."""

    environment: Mapping[str, Any]
    memory: int | None = None
    multiprocessors: int | None = None


def measure_machine(device: str) -> Iterator[Machine | finding.Finding]:
    """The machine, and what `htbench doctor` finds of it."""
    about = environment.describe_with_cpu_flags(device)
    if device == "cuda":
        gpu = torch.cuda.get_device_properties()
        yield Machine(about, gpu.total_memory, gpu.multi_processor_count)
    else:
        yield Machine(about)
    yield from finding.examine(Path(), checks.CHECKS)


# --- optimizers on both devices ---

STEPS = 5
STACKS = (((96, 96),) * 3, ((66, 130),) * 2)  # shapes of matrices, as they are stacked
GRADIENTS = ("gaussian", "zero", "rank one", "nan")  # the last has one entry that is not a number


@dataclass(frozen=True)
class Agreement:
    """STEPS steps of an optimizer on a device and on the CPU, with the same weights and gradients.

    Attributes:
        optimizer: of the zoo, with its defaults.
        dtype: of weights and gradients.
        gradients: of GRADIENTS.
        difference: of the weights, in the Frobenius norm, as a share of how far they moved on the CPU; None
            where they are not finite or did not move.
        finite: share of the weights that are finite afterwards, on the device and on the CPU.
        raised: by device, the exception.
    """

    optimizer: str
    dtype: str
    gradients: str
    difference: float | None
    finite: tuple[float, float]
    raised: Mapping[str, str]


def make_matrices(device: str, dtype: torch.dtype, generator: torch.Generator) -> list[Tensor]:
    """Gaussian matrices with the shapes of STACKS, the same on every device."""
    each = [torch.randn(shape, generator=generator) for stack in STACKS for shape in stack]
    return [one.to(device, dtype) for one in each]


def compare_with_cpu(name: str, dtype: torch.dtype, gradients: str, device: str) -> Agreement:
    """A row of the zoo on a device beside itself on the CPU."""
    raised, ends = dict[str, str](), list[Tensor]()
    for place in (device, "cpu"):
        generator = torch.Generator().manual_seed(0)
        params = [nn.Parameter(one) for one in make_matrices(place, dtype, generator)]
        start = _flatten(params)
        optimizer = optimizers.build(name, [(f"w{i}", p) for i, p in enumerate(params)], routing="matrix")
        try:
            for _ in range(STEPS):
                for p, gaussian in zip(params, make_matrices(place, dtype, generator), strict=True):
                    p.grad = _make_gradient(gradients, gaussian)
                if isinstance(optimizer, UpdateRule) and optimizer.wants_curvature(0):
                    optimizer.observe_curvature(batch_size=1)
                optimizer.step()
        except Exception as error:  # of a solver, say: which is what is to be known
            raised[place] = reason(error)
        ends.append(_flatten(params))
    there, here = ends
    moved = (here - start).norm().item()
    finite = (there.isfinite().double().mean().item(), here.isfinite().double().mean().item())
    difference = (there - here).norm().item() / moved if moved > 0 and finite == (1, 1) else None
    return Agreement(name, str(dtype).removeprefix("torch."), gradients, difference, finite, raised)


def _flatten(params: Sequence[Tensor]) -> Tensor:
    return torch.cat([p.detach().double().cpu().flatten() for p in params])


def _make_gradient(kind: str, gaussian: Tensor) -> Tensor:
    if kind == "zero":
        return torch.zeros_like(gaussian)
    if kind == "rank one":
        return gaussian[:, :1] * gaussian[:1]
    if kind == "nan":
        gaussian[0, 0] = torch.nan
    return gaussian


def measure_agreement(device: str) -> Iterator[Agreement]:
    """Each row of the zoo in both precisions with gradients of each kind."""
    for name in optimizers.ZOO:
        for dtype in (torch.float32, torch.bfloat16):
            for gradients in GRADIENTS:
                yield compare_with_cpu(name, dtype, gradients, device)


# --- steps of optimizers ---

ROWS = ("adamw", "muon", "htmuon", "htmuon_mix", "normuon", "soap", "cosmos")
ROUNDS, SECONDS = 9, 8.0  # of a pair, and after which none of its rounds begins


@dataclass(frozen=True)
class Failed:
    """An optimizer whose step could not be measured, and why."""

    optimizer: str
    why: str


def measure_optimizers(device: str) -> Iterator[Row | Failed]:
    """A step in bfloat16 beside muon's, and beside the peers that are installed."""
    model = "llama-60m" if device == "cuda" else "llama-nano"
    settings = Settings(model, {"vocabulary": 2048}, device, 1, "bfloat16", ROUNDS, SECONDS)
    bench, against = Bench(settings), entry("muon")
    for one in map(entry, ROWS):
        try:
            yield from bench.rows([one], against, lambda label: None)
            yield from bench.beside(one, lambda label: None)
        except RuntimeError as error:  # of a solver, or of memory
            yield Failed(one.label, reason(error))


# --- a training step ---


def learner_of(model: str, samples: int, length: int, device: str, **settings: Any) -> Learner:
    """A run's model and optimizer before its first step, in bfloat16, on text that says nothing."""
    named = {"task": "c4", "layout": "packed", "data_fingerprint": "-", "steps": 9, "device": device}
    named |= {"model": model, "seq_len": length, "batch_size": samples, "precision.params": "bfloat16"}
    tokens = np.arange(samples * length * 2 + 1, dtype=np.uint16) % 32000
    sizes: dict[str, Any] = {"batch_size": samples, "seq_len": length, "held_out_tokens": length}
    task = TextTask(dict.fromkeys(SPLITS, tokens), np.ones(32000), data_seed=0, **sizes)
    return Learner(resolved(resolve_config(named | settings)), task, 9, torch.device(device))


@dataclass(frozen=True)
class TrainingStep:
    """A step with AdamW in bfloat16, not compiled.

    Attributes:
        model: that is trained.
        samples, length: of a batch.
        milliseconds: median of six steps after the third.
        tokens_per_second: by that median.
        peak: bytes of the GPU's allocator; None on a CPU.
    """

    model: str
    samples: int
    length: int
    milliseconds: float
    tokens_per_second: float
    peak: int | None


def measure_training(device: str) -> Iterator[TrainingStep]:
    """Of llama-60m, with as many samples as are usual for a step of one GPU, and with the paper's 512."""
    model, batches, length = ("llama-60m", (64, 512), 256) if device == "cuda" else ("llama-nano", (4,), 32)
    _, clock = clock_of(device, 1)
    for samples in batches:
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        learner = learner_of(model, samples, length, device, **{"optimizer.name": "adamw"})
        ends = [clock()]
        for step in range(9):
            learner.update(step)
            ends.append(clock())
        seconds = statistics.median(b - a for a, b in zip(ends[3:], ends[4:], strict=False))
        peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
        del learner  # not in memory beside the next one
        yield TrainingStep(model, samples, length, 1e3 * seconds, samples * length / seconds, peak)


# --- parts, each in a process ---


@dataclass(frozen=True)
class Part:
    """Facts, and the minutes that they are guessed to take on a GPU; a part is ended after twice of that."""

    measure: Callable[[str], Iterator[Any]]
    minutes: float


PARTS = {
    "machine": Part(measure_machine, 0.5),
    "agreement": Part(measure_agreement, 3),
    "optimizers": Part(measure_optimizers, 4),
    "train-60m": Part(measure_training, 1.5),
}


def measure_here(name: str, file: Path) -> None:
    """Measure a part in this process: a line of its file for each fact."""
    torch.set_num_threads(1)
    with file.open("w", encoding="utf-8") as lines:
        for fact in PARTS[name].measure("cuda" if torch.cuda.is_available() else "cpu"):
            print(json.dumps({"kind": type(fact).__name__, **plain(fact)}), file=lines, flush=True)


def measure_apart(name: str, file: Path, seconds: float) -> str:
    """Measure a part in a process of its own, which has so many seconds; return how it ended."""
    began, log = time.monotonic(), file.with_suffix(".log")
    command = [sys.executable, __file__, "--part", name, "--here", "--out", str(file.parent)]
    file.write_text("")
    with log.open("wb") as output:
        try:
            status = subprocess.run(command, stdout=output, stderr=output, timeout=seconds).returncode
            outcome = "failed" if status else "done"
        except subprocess.TimeoutExpired:
            outcome = "out of time"
    ended = {"outcome": outcome, "seconds": round(time.monotonic() - began, 1)}
    with file.open("a", encoding="utf-8") as lines:
        print(json.dumps(ended), file=lines)
    return outcome


def is_done(file: Path) -> bool:
    """Whether a part's file says that it ended well."""
    return file.exists() and '\n{"outcome": "done"' in file.read_text(encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is not done, as far as the minutes reach; 0 once all parts are done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=12, help="that there are in all (default: 12)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the files, one for each machine")
    parser.add_argument("--part", choices=PARTS, action="append", help="(default: all)")
    parser.add_argument("--here", action="store_true", help="in this process, without a limit")
    args = parser.parse_args(words)
    args.out.mkdir(parents=True, exist_ok=True)
    files = {name: args.out / f"{name}.jsonl" for name in args.part or PARTS}
    if args.here:
        for name, file in files.items():
            measure_here(name, file)
        return 0
    ends = time.monotonic() + 60 * args.minutes
    todo = [name for name, file in files.items() if not is_done(file)]
    plan = ", ".join(f"{name} {PARTS[name].minutes:g}" for name in todo) or "nothing"
    print(f"{args.minutes:g} minutes for {plan}; {len(files) - len(todo)} of {len(files)} done before")
    for name in todo:
        seconds = min(ends - time.monotonic(), 120 * PARTS[name].minutes)
        outcome = measure_apart(name, files[name], seconds) if seconds > 0 else "no time left"
        print(f"{name}: {outcome}, {files[name]}", flush=True)
    return 0 if all(map(is_done, files.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
