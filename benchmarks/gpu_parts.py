"""What `benchmarks/gpu.py` measures: a function for each part, which yields a fact as soon as it is known.

All functions take the device and the folder of the figures. On a CPU they do the same work on tiny models.
"""

import functools
import itertools
import json
import math
import multiprocessing
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from htbench import models, optimizers
from htbench.harness import tasks
from htbench.harness.bench.optimizers import Bench, Row, Settings
from htbench.harness.bench.peers import peers_of
from htbench.harness.bench.subjects import entry
from htbench.harness.bench.turns import clock_of
from htbench.harness.config.key import resolved
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import resolve_config
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.cost import estimate
from htbench.harness.cost.from_runs import from_records
from htbench.harness.cost.run_class import run_class
from htbench.harness.data.task import SPLITS
from htbench.harness.data.text import TextTask
from htbench.harness.errors import StoppedError, reason
from htbench.harness.store import Store
from htbench.harness.store.record import RunRecord
from htbench.harness.system import checks, environment, finding
from htbench.harness.system.machine import usable_cores
from htbench.harness.train.learner import Learner
from htbench.harness.train.monitor import Monitor
from htbench.harness.train.run import run
from htbench.harness.train.stack import Stack
from htbench.optimizers import UpdateRule
from tests.helpers.operations import Operations

SWEEPS = Path(__file__).parents[1] / "sweeps"
ROWS = ("adamw", "muon", "htmuon", "htmuon_mix", "normuon", "soap", "cosmos")


@dataclass(frozen=True)
class Failed:
    """What could not be measured, and why."""

    subject: str
    why: str


def on(device: str, large: Any, small: Any) -> Any:
    """What is measured on a GPU, or what tries the program on a CPU."""
    return large if device == "cuda" else small


# --- what the machine has ---


@dataclass(frozen=True)
class Machine:
    """Versions and hardware; of a GPU its memory in bytes and its multiprocessors, too."""

    environment: Mapping[str, Any]
    memory: int | None = None
    multiprocessors: int | None = None


def measure_machine(device: str, folder: Path) -> Iterator[Machine | finding.Finding]:
    """The machine, and what `htbench doctor` finds of it."""
    about = environment.describe_with_cpu_flags(device)
    if device == "cuda":
        gpu = torch.cuda.get_device_properties()
        yield Machine(about, gpu.total_memory, gpu.multi_processor_count)
    else:
        yield Machine(about)
    yield from finding.examine(folder, checks.CHECKS)


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


def measure_agreement(device: str, folder: Path) -> Iterator[Agreement]:
    """Five steps of each optimizer beside the CPU's; gradients: Gaussian, zero, of rank 1, with a NaN."""
    for name in on(device, dict.fromkeys((*ROWS, *optimizers.ZOO)), ROWS):
        for dtype in (torch.float32, torch.bfloat16):
            for gradients in GRADIENTS:
                yield compare_with_cpu(name, dtype, gradients, device)


# --- runs on made-up text: a machine without a network has no other ---

MADE_UP = "made-up tokens"  # in place of a fingerprint, so no such run has the key of a run on C4


def fingerprint() -> str:
    """Of the task that `make_up_c4` puts into the table."""
    return MADE_UP


def load(cache: Path, *, held_out_tokens: int, protocol: str, layout: str, **sizes: Any) -> TextTask:
    """C4's shapes: rows of `seq_len` tokens of 32,000 words. All rows are full, which many of C4 are not."""
    length = max(held_out_tokens, 2 * sizes["batch_size"] * sizes["seq_len"]) + 1
    tokens = np.random.default_rng(0).integers(0, 32_000, length).astype(np.uint16)
    every = {"held_out_tokens": held_out_tokens, "test_tokens": held_out_tokens, **sizes}
    return TextTask(dict.fromkeys(SPLITS, tokens), np.ones(32_000), **every)


def make_up_c4() -> None:
    """In this process the task `c4` has made-up tokens."""
    ours: Any = {"fingerprint": f"{__name__}:fingerprint", "loader": f"{__name__}:load"}
    tasks.TASKS["c4"] = replace(tasks.TASKS["c4"], **ours, train_size="", ready="")


def train(settings: Mapping[str, Any], root: Path, monitor: Monitor | None = None) -> RunRecord:
    """A whole run on made-up tokens, as `htbench run` makes it; its record lies in the store at `root`."""
    make_up_c4()
    config = resolve_config({"task": "c4", "data_fingerprint": MADE_UP, **settings})
    return run(resolved(config), Store(root), monitor, count=estimate.for_record)


@dataclass(frozen=True)
class Resumed:
    """A run that was stopped and resumed, beside the same run in one piece.

    Attributes:
        optimizer: of both.
        steps: of both; the stop came in the middle.
        attempts: at the resumed run.
        difference: of their validation losses at the end, as a share of how far training moved the loss;
            0 on a CPU, where they agree bit for bit.
    """

    optimizer: str
    steps: int
    attempts: int
    difference: float


def measure_resumed(device: str, folder: Path) -> Iterator[Resumed | Failed]:
    """A tiny run that is stopped and resumed beside one in one piece."""
    for name in on(device, ROWS, ROWS[1:3]):
        try:
            yield compare_resumed(name, device)
        except Exception as error:  # of a solver, of a driver
            yield Failed(name, reason(error))


def compare_resumed(name: str, device: str, steps: int = 8) -> Resumed:
    """A row's run in one piece, and another that is stopped and resumed."""
    settings = {"model": "llama-nano", "batch_size": 4, "seq_len": 32, "held_out_tokens": 256}
    settings |= {"steps": steps, "log_every": 1, "evaluation.untrained": True}
    settings |= {"optimizer.name": name, "device": device}
    monitor = Monitor()
    monitor.progress = functools.partial(_stop_at, monitor, steps // 2)
    with TemporaryDirectory() as place:
        straight = train(settings, Path(place, "straight"))
        try:
            train(settings, Path(place, "resumed"), monitor)
        except StoppedError:
            record = train(settings, Path(place, "resumed"))
    first, second = (float(one.metrics["val_loss"] or math.nan) for one in (straight, record))
    moved = abs(float(straight.metrics["untrained_val_loss"] or math.nan) - first)
    return Resumed(name, steps, record.attempts, abs(second - first) / (moved or math.nan))


def _stop_at(monitor: Monitor, last: int, step: int) -> None:
    monitor.stop_requested = step >= last


# --- steps of optimizers ---

ROUNDS, SECONDS = 9, 6.0  # of a pair, and after which none of its rounds begins


def settings_of_steps(device: str) -> Settings:
    """How steps are measured: in bfloat16, on the parameters of llama-60m."""
    overrides = on(device, {}, {"vocabulary": 2048})
    return Settings(on(device, "llama-60m", "llama-nano"), overrides, device, 1, "bfloat16", ROUNDS, SECONDS)


def measure_optimizers(device: str, folder: Path) -> Iterator[Row | Failed]:
    """The time of a step on llama-60m in bfloat16 beside muon's, torch's fused AdamW's and torch's Muon's."""
    bench = Bench(settings_of_steps(device), entry("muon"))
    for one in map(entry, ROWS):
        try:
            rows = (bench.measure(one, peer) for peer in (None, *peers_of(one.name)))
            yield from (row for row in rows if row.ratio)
        except RuntimeError as error:  # of a solver, or of memory
            yield Failed(one.label, reason(error))


# --- what a step starts and what it waits for ---


@dataclass(frozen=True)
class Counts:
    """What one step does. No clock is in it, so it is the same on every card.

    Attributes:
        subject: whose step.
        operators: calls of PyTorch's operators but for views.
        launches: kernels that the CPU starts; None on a CPU.
        waits: how often the CPU waits for the GPU; None on a CPU.
        memory: most bytes that the step holds besides what was there before; None on a CPU.
    """

    subject: str
    operators: int
    launches: int | None = None
    waits: int | None = None
    memory: int | None = None


def count_step(subject: str, step: Callable[[], object], device: str) -> Counts:
    """Count what a step does, in four steps after two others: each way of counting is in the other's way."""
    for _ in range(2):
        step()
    with Operations() as operations:
        step()
    if device != "cuda":
        return Counts(subject, operations.kernels)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    launches = sum("LaunchKernel" in event.name for event in profiler.events())
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        step()
        torch.cuda.set_sync_debug_mode("default")
    memory = torch.cuda.max_memory_allocated() - before
    waits = sum("called a synchronizing" in str(one.message) for one in seen)
    return Counts(subject, operations.kernels, launches, waits, memory)


def make_steps(model: nn.Module) -> dict[str, Callable[[], object]]:
    """The steps of ROWS and of torch's own classes, each with an optimizer of the model's parameters."""
    matrices, others = optimizers.split_parameters(model, "released")
    fused: Any = {"lr": 1e-3, "fused": True}
    parts: list[torch.optim.Optimizer] = [torch.optim.Muon(matrices), torch.optim.AdamW(others, **fused)]
    made: dict[str, Callable[[], object]]
    made = {name: optimizers.build(name, model).step for name in ROWS}
    made["soap, its tenth step"] = optimizers.build("soap", model, precondition_frequency=1).step
    made["torch AdamW(fused)"] = torch.optim.AdamW(model.parameters(), **fused).step
    made["torch Muon with AdamW(fused)"] = lambda: [part.step() for part in parts]
    return made


def measure_counts(device: str, folder: Path) -> Iterator[Counts | Failed]:
    """Operators, launches and waits of these steps, and of a training step of the ladder's smallest model."""
    settings = settings_of_steps(device)
    model = models.build(settings.model, **settings.overrides).to(device, torch.bfloat16)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    for subject, step in make_steps(model).items():
        yield count_step(subject, step, device)
    for name in STACKED_ROWS:
        updates = map(ladder_learner(device, name).update, itertools.count())
        subject = f"llama-s1 with {name}, a training step"
        try:
            yield count_step(subject, functools.partial(next, updates), device)
        except RuntimeError as error:  # of a solver
            yield Failed(subject, reason(error))


# --- training steps ---


def make_learner(
    task: TextTask, device: str, settings: Mapping[str, Any], make: Callable[..., Learner] = Learner
) -> Learner:
    """A run's model and optimizer before its first step."""
    sizes = {"batch_size": task.batch_size, "seq_len": task.seq_len, "data_fingerprint": MADE_UP}
    config = resolve_config({**sizes, "steps": 9, "device": device, **settings})
    return make(resolved(config), task, config.steps or 9, torch.device(device))


def learner_of(model: str, samples: int, length: int, device: str, **settings: Any) -> Learner:
    """That of a run with C4's words and weights in bfloat16."""
    sizes = {"batch_size": samples, "seq_len": length, "data_seed": 0}
    task = load(Path(), held_out_tokens=length, protocol="", layout="", **sizes)
    named = {"task": "c4", "layout": "packed", "model": model, "precision.params": "bfloat16"}
    return make_learner(task, device, named | settings)


def ladder_learner(
    device: str, name: str = "muon", make: Callable[..., Learner] = Learner, **more: Any
) -> Learner:
    """That of a run of the ladder's smallest model."""
    file = read_yaml(SWEEPS / "ladder" / "ladder-gpu-s1.yaml")
    (block,) = (block for block in file["blocks"] if block["name"] == name)
    settings = flatten(file["base"]) | flatten(block["set"]) | {"task": "pysource", "device": device} | more
    words, sizes = 320, {name: settings[name] for name in ("batch_size", "seq_len", "held_out_tokens")}
    tokens = np.random.default_rng(0).integers(0, words, 1_000_000).astype(np.uint16)
    task = TextTask(dict.fromkeys(SPLITS, tokens), np.ones(words), data_seed=0, **sizes)
    return make_learner(task, device, settings, make)


@dataclass(frozen=True)
class Product:
    """The rate of a product of two square matrices in bfloat16, against which training steps are held."""

    size: int
    flops_per_second: float


def measure_product(device: str) -> Product:
    """The best of ten."""
    size, (_, clock) = on(device, 8192, 256), clock_of(device, 1)
    matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    times = [clock()]
    for _ in range(12):
        matrix @ matrix
        times.append(clock())
    best = min(b - a for a, b in zip(times[2:], times[3:], strict=False))
    return Product(size, 2 * size**3 / max(best, 1e-9))


@dataclass(frozen=True)
class TrainingStep:
    """A training step in bfloat16.

    Attributes:
        model, optimizer: what is trained, and by what.
        samples, length: of a batch.
        micro_batch: samples of a backward pass; less than `samples` where memory lacked.
        compiled: whether torch.compile made the model's passes.
        first: seconds of the first step, with compiling.
        milliseconds: median of six steps after the third.
        tokens_per_second: by that median.
        of_product: operations per second of model and optimizer as a share of a large product's.
        peak: bytes of the GPU's allocator; None on a CPU.
        estimated_peak: bytes by `htbench cost`.
    """

    model: str
    optimizer: str
    samples: int
    length: int
    micro_batch: int
    compiled: bool
    first: float
    milliseconds: float
    tokens_per_second: float
    of_product: float
    peak: int | None
    estimated_peak: int


def time_training(
    model: str, samples: int, length: int, device: str, product: Product, **settings: Any
) -> TrainingStep | Failed:
    """Train nine steps; a failure of one model must not hide the figures of the next."""
    _, clock = clock_of(device, 1)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        learner = learner_of(model, samples, length, device, **settings)
        ends = [clock()]
        for step in range(9):
            learner.update(step)
            ends.append(clock())
    except Exception as error:  # of a compiler, of a driver, of memory
        return Failed(f"{model}, {samples} samples, {settings}", reason(error))
    counted, config = estimate.count(learner.config, device), learner.config
    times = [b - a for a, b in zip(ends, ends[1:], strict=False)]
    seconds = max(statistics.median(times[3:]), 1e-9)
    flops = counted.flops_per_step + counted.optimizer_flops_per_step
    return TrainingStep(
        model=model,
        optimizer=config.optimizer.name,
        samples=samples,
        length=length,
        micro_batch=learner.micro_batch,
        compiled=config.compile,
        first=times[0],
        milliseconds=1e3 * seconds,
        tokens_per_second=samples * length / seconds,
        of_product=flops / seconds / product.flops_per_second,
        peak=torch.cuda.max_memory_allocated() if device == "cuda" else None,
        estimated_peak=counted.peak,
    )


ADAMW: Mapping[str, Any] = {"optimizer.name": "adamw"}


def measure_training(device: str, folder: Path) -> Iterator[Product | TrainingStep | Failed]:
    """Training steps of two models with AdamW; 64 samples are usual on one GPU, 512 the paper's."""
    yield (product := measure_product(device))
    for model, samples in on(device, SIZES, [("llama-nano", 4)]):
        yield time_training(model, samples, on(device, 256, 32), device, product, **ADAMW)


def measure_compiled(device: str, folder: Path) -> Iterator[Product | TrainingStep | Failed]:
    """Training steps with torch.compile, which takes a minute for a model."""
    yield (product := measure_product(device))
    for model, samples in on(device, SIZES[1:], [("llama-nano", 4)]):
        yield time_training(model, samples, on(device, 256, 32), device, product, **ADAMW, compile=True)


SIZES = (("llama-60m", 64), ("llama-60m", 512), ("llama-135m", 512))


def measure_memory(device: str, folder: Path) -> Iterator[Product | TrainingStep | Failed]:
    """The peak memory of each optimizer's training step beside `htbench cost`."""
    yield (product := measure_product(device))
    model, samples, length = on(device, ("llama-60m", 64, 256), ("llama-nano", 4, 32))
    for name in on(device, ROWS, ROWS[1:3]):
        yield time_training(model, samples, length, device, product, **{"optimizer.name": name})


# --- the paper's headline in small ---


@dataclass(frozen=True)
class Headline:
    """What a run of the paper's main table takes on one GPU, by a short run of its class.

    Attributes:
        block: of the sweep file.
        steps: of the short run.
        milliseconds: of a step, the mean after a warm-up.
        tokens_per_second: by that mean.
        evaluation: seconds of a pass over held-out text.
        hours: of the whole run, as `sweep plan` says it once the short run's record is in a store.
        runs: of the block, one for each rate.
    """

    block: str
    steps: int
    milliseconds: float
    tokens_per_second: float
    evaluation: float
    hours: float
    runs: int


def measure_headline(device: str, folder: Path) -> Iterator[Headline | Failed]:
    """Short runs of the paper's 60M rows on one GPU, and the hours of the whole ones.

    Their records make a store of the folder, which `htbench runs import` takes. The sweep file beside them
    has the whole runs, and `htbench sweep plan` knows then how long these take.
    """
    file = read_paper(on(device, {}, TINY))
    (folder / "paper-60m.yaml").write_text(json.dumps(file, indent=1))  # which is YAML, too
    model, samples, length = on(device, ("llama-60m", 512, 256), ("llama-nano", 4, 32))
    learner = learner_of(model, samples, length, device, **ADAMW)
    for step in range(3):  # what a process does once is not in the short runs
        learner.update(step)
    del learner  # not in memory beside the next one
    for block in file["blocks"]:
        settings = file["base"] | block["set"]
        short = {"steps": on(device, 50, 5), "evaluation.every": 0, "evaluation.untrained": False}
        short |= {"spectra.final": False, "spectra.updates": []}
        try:
            record = train(settings | short, folder)
        except Exception as error:
            yield Failed(block["name"], reason(error))
            continue
        config = resolve_config({"data_fingerprint": MADE_UP, **settings})
        cost = from_records(Store(folder), [record])[run_class(config)]
        tokens, seconds = config.batch_size * (config.seq_len or 0), record.seconds_per_step or math.nan
        hours = cost.seconds(config, config.steps or 0) / 3600
        runs = len(block["space"]["optimizer.lr"]) * len(file["seeds"])
        yield Headline(
            *(block["name"], record.steps, 1e3 * seconds, tokens / seconds, cost.evaluation, hours, runs)
        )


TINY: Mapping[str, Any] = {"model": "llama-nano", "batch_size": 4, "seq_len": 32, "held_out_tokens": 512}


def read_paper(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of the paper's main table on llama-60m, for one GPU, with other `sizes`."""
    file = read_yaml(SWEEPS / "paper" / "paper-main_result.yaml")
    blocks = [
        {"name": block["name"], "set": {**block["set"], "processes": 1, **sizes}, "space": block["space"]}
        for block in file["blocks"]
        if block["set"]["model"] == "llama-60m"
    ]
    return {"name": "paper-60m", "base": file["base"], "seeds": file["seeds"], "blocks": blocks}


# --- small runs side by side ---


@dataclass(frozen=True)
class SideBySide:
    """Training of the ladder's smallest model with muon in several processes at once.

    Attributes:
        processes: at once.
        steps_per_second: of all of them together.
        runs_per_minute: at 1771 steps a run.
    """

    processes: int
    steps_per_second: float
    runs_per_minute: float


def measure_side_by_side(device: str, folder: Path) -> Iterator[SideBySide | Failed]:
    """The ladder's smallest model in one process, and in several that share the GPU."""
    spawning = multiprocessing.get_context("spawn")
    for processes in on(device, (1, 4, 12) if usable_cores() >= 8 else (1, 4), (1, 2)):
        together, rates = spawning.Barrier(processes), spawning.Queue()
        given = device, on(device, 8.0, 0.5), together, rates
        workers = [spawning.Process(target=train_beside, args=given, daemon=True) for _ in range(processes)]
        for worker in workers:
            worker.start()
        try:
            rate = sum(rates.get(timeout=90) for _ in workers)
        except Exception as error:  # one has died, and the others wait for it
            yield Failed(f"{processes} processes", reason(error))
            continue
        finally:
            for worker in workers:
                worker.join(timeout=10)
                worker.kill()
        yield SideBySide(processes, rate, 60 * rate / 1771)


def train_beside(device: str, seconds: float, together: Any, rates: Any) -> None:
    """Train for some seconds, which begin for all processes at once; put the steps per second."""
    torch.set_num_threads(1)
    learner, (_, clock), steps = ladder_learner(device), clock_of(device, 2), 0
    for step in range(20):
        learner.update(step)
    clock()
    together.wait()
    began = clock()
    while clock() < began + seconds:
        for _ in range(10):  # between two looks at the clock, which wait for the GPU
            learner.update(steps)
            steps += 1
    rates.put(steps / (clock() - began))


# --- small runs as one stack ---

STACKED_ROWS = ("adamw", "muon", "htmuon")


@dataclass(frozen=True)
class Stacked:
    """Updates of so many runs of the ladder's smallest model as one, by run.

    Attributes:
        optimizer: of all runs.
        runs: of the stack.
        operators, launches, waits: as in `Counts`, of an update of one run.
        memory: most bytes that an update holds besides what was there before, of one run.
        runs_per_minute: at 1771 steps a run.
    """

    optimizer: str
    runs: int
    operators: float
    launches: float | None
    waits: float | None
    memory: float | None
    runs_per_minute: float


def measure_stacks(device: str, folder: Path) -> Iterator[Stacked | Failed]:
    """The ladder's smallest model in stacks of one process."""
    sizes = [*((name, 16) for name in STACKED_ROWS), *(("muon", runs) for runs in (8, 32, 128))]
    for optimizer, runs in on(device, sizes, [("muon", 2)]):
        stack = Stack(runs)
        try:
            yield update_stack(device, optimizer, stack)
        except RuntimeError as error:  # of a solver, or of memory
            yield Failed(f"{optimizer}, {runs} runs", reason(error))


def update_stack(device: str, optimizer: str, stack: Stack) -> Stacked:
    """Count an update of all runs of a stack, and make more of them for some seconds."""
    runs, steps = stack.members, itertools.count()
    learners: Any = [ladder_learner(device, optimizer, stack.learner, seed=seed) for seed in range(runs)]

    def update() -> None:
        for loss in stack.update_all(dict.fromkeys(learners, next(steps))).values():
            if isinstance(loss, Exception):
                raise loss

    counts, (_, clock) = count_step(optimizer, update, device), clock_of(device, 2)
    began, first = clock(), next(steps)
    while clock() < began + on(device, 4.0, 0.2):
        for _ in range(5):
            update()
    rate = runs * (next(steps) - first - 1) / (clock() - began)
    each = [None if x is None else x / runs for x in (counts.launches, counts.waits, counts.memory)]
    return Stacked(optimizer, runs, counts.operators / runs, *each, 60 * rate / 1771)


# --- by the names of their files; `MINUTES` of gpu.py has their order ---


PARTS: Mapping[str, Callable[[str, Path], Iterator[Any]]] = {
    "machine": measure_machine,
    "agreement": measure_agreement,
    "resumed": measure_resumed,
    "optimizers": measure_optimizers,
    "counts": measure_counts,
    "training": measure_training,
    "headline": measure_headline,
    "stacks": measure_stacks,
    "compiled": measure_compiled,
    "side-by-side": measure_side_by_side,
    "memory": measure_memory,
}
