"""What the parts of `htbench bench gpu` measure: generators of facts, called in a process of their own.

Tests marked `gpu` use the same pieces. Whether a figure is good is for the reader.
"""

import contextlib
import os
import signal
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

import models
import optimizers
from harness.bench import maps, train
from harness.bench.machine import CallCount, fitting
from harness.bench.optimizers import Bench, Row, Settings
from harness.bench.subjects import entries, entry
from harness.bench.turns import clock_of
from harness.config import RunConfig
from harness.config.key import resolved
from harness.config.settings import resolve_config
from harness.cost.estimate import count
from harness.cost.watch import eigh
from harness.data.augment import Recipe
from harness.data.images import ImageTask
from harness.data.task import SPLITS
from harness.data.text import TextTask
from harness.errors import StoppedError, reason
from harness.store import Store
from harness.store.layout import cache_folder
from harness.store.record import RunRecord
from harness.system import checks, finding
from harness.train import run
from harness.train.learner import Learner
from harness.train.monitor import Monitor
from optimizers import UpdateRule
from optimizers.spectral import exact, polar
from optimizers.spectral.newton_schulz import newton_schulz

T = TypeVar("T")

GIB: Final = 2**30
STEPS: Final = 5
STACKS: Final = (((96, 96),) * 3, ((66, 130),) * 2)  # shapes of matrices, as they are stacked
# Waits of each stack: `eigh` has one status, `svd` asks first whether it has converged.
STATUS: Final = {
    **dict.fromkeys(("htmuon", "htmuon_normuon", "htmuon_adamuon"), 1),
    **dict.fromkeys(("muon_svd", "htmuon_ht", "htmuon_ht_normuon"), 2),
}
ONCE: Final = ("prodigy",)  # waits for a number that it estimates, once in a step

# --- what the machine has ---


@dataclass(frozen=True)
class Recognised:
    """The GPU.

    Attributes:
        device: as the driver calls it.
        bytes: of its memory.
        processors: on it.
    """

    device: str
    bytes: int
    processors: int


def doctor(cache: Path) -> Iterator[finding.Finding | Recognised]:
    """What `htbench doctor` finds of the machine, and the GPU."""
    yield from finding.examine(cache, checks.CHECKS)
    about = torch.cuda.get_device_properties()
    yield Recognised(about.name, about.total_memory, about.multi_processor_count)


# --- optimizers on both devices ---


@dataclass(frozen=True)
class Agreement:
    """STEPS steps of an optimizer on both devices, with its defaults, on the same weights and gradients.

    Attributes:
        optimizer: of the zoo.
        dtype: of weights and gradients.
        gradients: "gaussian", "zero", "rank one", "nan" (one entry of each).
        difference: of the weights, in the Frobenius norm, as a share of how far they moved on the CPU; None
            where they are not finite or did not move.
        gpu, cpu: share of the weights that are finite afterwards.
        raised: by what raised it, the exception.
    """

    optimizer: str
    dtype: str
    gradients: str
    difference: float | None
    gpu: float
    cpu: float
    raised: Mapping[str, str]


GRADIENTS: Final = ("gaussian", "zero", "rank one", "nan")


def matrices(device: str, dtype: torch.dtype, generator: torch.Generator) -> list[Tensor]:
    """Gaussian matrices with the shapes of STACKS, the same on every device."""
    each = [torch.randn(shape, generator=generator) for stack in STACKS for shape in stack]
    return [one.to(device, dtype) for one in each]


def agreement_of(name: str, dtype: torch.dtype, gradients: str) -> Agreement:
    """Compare a row of the zoo on the GPU with itself on the CPU."""
    raised, ends = dict[str, str](), list[Tensor]()
    for device in ("cuda", "cpu"):
        generator = torch.Generator().manual_seed(0)
        params = [nn.Parameter(one) for one in matrices(device, dtype, generator)]
        start = torch.cat([p.detach().double().cpu().flatten() for p in params])
        optimizer = optimizers.build(name, [(f"w{i}", p) for i, p in enumerate(params)], routing="matrix")
        try:
            for _ in range(STEPS):
                for p, gaussian in zip(params, matrices(device, dtype, generator), strict=True):
                    p.grad = _like(gradients, gaussian)
                if isinstance(optimizer, UpdateRule) and optimizer.wants_curvature(0):
                    optimizer.observe_curvature(batch_size=1)
                optimizer.step()
        except Exception as error:  # of a solver, say: which is what is to be known
            raised[device] = reason(error)
        ends.append(torch.cat([p.detach().double().cpu().flatten() for p in params]))
    on_gpu, on_cpu = ends
    moved = (on_cpu - start).norm().item()
    difference = (on_gpu - on_cpu).norm().item() / moved if moved > 0 else None
    gpu, cpu = (end.isfinite().double().mean().item() for end in ends)
    sound = difference if gpu == cpu == 1 else None
    return Agreement(name, str(dtype).removeprefix("torch."), gradients, sound, gpu, cpu, raised)


def _like(gradients: str, gaussian: Tensor) -> Tensor:
    if gradients == "zero":
        return torch.zeros_like(gaussian)
    if gradients == "rank one":
        return gaussian[:, :1] * gaussian[:1]
    if gradients == "nan":
        gaussian[0, 0] = torch.nan
    return gaussian


def agreement(cache: Path) -> Iterator[Agreement]:
    """Each row of the zoo in both precisions with gradients of each kind."""
    for name in optimizers.ZOO:
        for dtype in (torch.float32, torch.bfloat16):
            for gradients in GRADIENTS:
                yield agreement_of(name, dtype, gradients)


# --- what a step waits for ---


@dataclass(frozen=True)
class Waiting:
    """How often a step waits for the GPU.

    Attributes:
        step: of what.
        waits: that torch's synchronisation debug mode reports.
        expected: for the status of solvers, and where the algorithm needs a value.
    """

    step: str
    waits: int
    expected: int


@contextmanager
def waits() -> Iterator[list[warnings.WarningMessage]]:
    """What waits inside, each as a warning."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", ".*synchronizing")  # torch's word for it
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode("default")


def waits_of_a_step(name: str) -> Waiting:
    """Of a row of the zoo, in its third step."""
    generator = torch.Generator().manual_seed(0)
    params = [nn.Parameter(one) for one in matrices("cuda", torch.float32, generator)]
    optimizer = optimizers.build(name, [(f"w{i}", p) for i, p in enumerate(params)], routing="matrix")
    for _ in range(3):
        for p in params:
            p.grad = torch.randn_like(p)
        with waits() as found:
            optimizer.step()
    return Waiting(name, len(found), len(STACKS) * STATUS.get(name, 0) + (name in ONCE))


def mixed_images(size: int = 16) -> ImageTask:
    """Random images of CIFAR's size with all augmentations."""
    images = {split: torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8) for split in SPLITS}
    labels = {split: torch.randint(0, 100, (64,)) for split in SPLITS}
    recipe = Recipe(32, (0.5,) * 3, (0.2,) * 3, "randaugment", 0.2)
    return ImageTask(images, labels, classes=100, batch_size=size, data_seed=0, recipe=recipe)


def text_task(samples: int, length: int) -> TextTask:
    """Text that says nothing, of a vocabulary of 32,000."""
    tokens = np.arange(samples * length * 2 + 1, dtype=np.uint16) % 32000
    sizes: dict[str, Any] = {"batch_size": samples, "seq_len": length, "held_out_tokens": length}
    return TextTask(dict.fromkeys(SPLITS, tokens), np.ones(32000), data_seed=0, **sizes)


def config_of(model: str, samples: int, length: int, **settings: Any) -> RunConfig:
    """Of a run of a language model in bfloat16 with Sophia, unless settings say otherwise."""
    named = {"task": "c4", "layout": "packed", "data_fingerprint": "-", "steps": 9, "device": "cuda"}
    named |= {"model": model, "seq_len": length, "batch_size": samples, "precision.params": "bfloat16"}
    return resolve_config({"optimizer.name": "sophia"} | named | settings)


def learner_of(model: str, samples: int, length: int = 256, **settings: Any) -> Learner:
    """Of such a run, before its first step."""
    config = config_of(model, samples, length, **settings)
    return Learner(resolved(config), text_task(samples, length), 9, torch.device("cuda"))


def image_learner(autocast: str) -> Learner:
    """Of a small ResNet in four micro-batches, before its first step."""
    settings = {"task": "cifar100", "model": "resnet-nano", "optimizer.name": "muon", "grad_clip": 1.0}
    settings |= {"batch_size": 16, "micro_batch": 4, "steps": 9, "device": "cuda"}
    config = resolve_config(settings | {"precision.autocast": autocast})
    return Learner(resolved(config), mixed_images(), 9, torch.device("cuda"))


def waiting(cache: Path) -> Iterator[Waiting]:
    """Steps of optimizers, then training steps."""
    for name in optimizers.ZOO:
        yield waits_of_a_step(name)
    for autocast in ("none", "bfloat16"):
        text = learner_of(
            "llama-nano", 16, 32, **{"precision.autocast": autocast, "precision.params": "float32"}
        )
        for label, learner in (("text, sophia", text), ("images, muon", image_learner(autocast))):
            for step in range(3):
                with waits() as found:
                    learner.update(step)
            yield Waiting(f"{label}, autocast {autocast}", len(found), 0)


# --- runs ---


@dataclass(frozen=True)
class Ran:
    """A run of llama-nano on text, or gpt2-nano with dropout.

    Attributes:
        name: of the case.
        status: of its record.
        steps: made.
        attempts: processes' work on it; 2 if it was stopped and went on.
        seconds_per_step: median.
        useful_seconds: of all steps.
        timing: what else took time, as the record has it.
        metrics: at its end.
    """

    name: str
    status: str
    steps: int
    attempts: int
    seconds_per_step: float | None
    useful_seconds: float
    timing: Mapping[str, float]
    metrics: Mapping[str, float | None]


_RUN: Final = {
    "task": "pydocs",
    "model": "llama-nano",
    "optimizer.name": "muon",
    "batch_size": 16,
    "steps": 60,
    "log_every": 10,
    "device": "cuda",
}
_STOP: Final = 30  # steps, after which SIGTERM comes; then the run goes on
_CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "float32": {},
    "stopped": {},
    "autocast": {"precision.autocast": "bfloat16"},
    "compiled": {"compile": True},
    "compiled again": {"compile": True},
    "dropout": {"model": "gpt2-nano", "dropout": 0.1},
}


def runs(cache: Path) -> Iterator[Ran]:
    """The cases, in a store of their own."""
    with tempfile.TemporaryDirectory(prefix="htbench-") as folder:
        cache_folder(Path(folder)).symlink_to(cache.resolve())
        for name, settings in _CASES.items():
            config = resolve_config({**_RUN, "replica": name, **settings})  # some differ in no number
            record = _trained(Store(folder), resolved(config), _STOP if name == "stopped" else None)
            about = record.seconds_per_step, record.useful_seconds, record.timing, record.metrics
            yield Ran(name, str(record.status.value), record.steps, record.attempts, *about)


def _trained(store: Store, config: Any, stop: int | None) -> RunRecord:
    """Train a run, in two goes where a signal is to come after the step `stop`."""
    if stop is not None:
        monitor = Monitor(lambda step: os.kill(os.getpid(), signal.SIGTERM) if step >= stop else None)
        monitor.stop_on_signals()
        with contextlib.suppress(StoppedError):
            run.run(config, store, monitor)
    return run.run(config, store)


# --- memory ---


@dataclass(frozen=True)
class Capped:
    """A step of llama-60m with 512 sequences, in the micro-batches that memory holds.

    Attributes:
        bytes: of memory that torch may take; None: all.
        micro_batch: that fitted; None: none did.
        peak: bytes of the allocator.
    """

    bytes: int | None
    micro_batch: int | None
    peak: int


CAPS: Final = (None, 24, 15, 6, 3)
AT_START: Final = {"optimizer.curvature_at_start": True}  # Sophia's second pass in the first step, too


def memory(cache: Path) -> Iterator[Capped]:
    """With each of CAPS, GiB."""
    for cap in CAPS:
        bytes_ = cap and cap * GIB
        whole = torch.cuda.get_device_properties().total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, bytes_ / whole) if bytes_ else 1.0)
        fitted = fitting(_two_steps, "llama-60m", 512)
        yield Capped(bytes_, fitted and fitted[0].micro_batch, fitted[1] if fitted else 0)
        del fitted


def _two_steps(model: str, samples: int, length: int = 256) -> tuple[Learner, int]:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    learner = learner_of(model, samples, length, **AT_START)
    for step in range(2):
        learner.update(step)
    return learner, torch.cuda.max_memory_allocated()


@dataclass(frozen=True)
class PeakRow:
    """The memory of a model's step with Sophia's second pass, in bfloat16.

    Attributes:
        model: of the paper.
        samples, length: of a batch.
        peak: bytes of the allocator; None: memory lacks.
        estimated: by `htbench cost`.
    """

    model: str
    samples: int
    length: int
    peak: int | None
    estimated: int


def peaks(cache: Path) -> Iterator[PeakRow]:
    """The four LLaMAs, and GPT-2."""
    for model, samples, length in (
        *((f"llama-{size}", 64, 256) for size in ("60m", "135m", "350m")),
        ("llama-1b", 16, 256),
        ("gpt2-small", 12, 1024),
    ):
        fitted = fitting(_two_steps, model, samples, length)
        config = config_of(model, samples, length, **AT_START)
        yield PeakRow(model, samples, length, fitted and fitted[1], count(config, "cuda").peak)
        del fitted


# --- benchmarks that there are ---


def training(cache: Path, model: str, compiled: bool) -> Iterator[train.TrainFacts]:
    """`htbench bench train` in bfloat16, with the paper's batch and with half of it until both sides fit."""
    for batch in (512, 256, 128, 64):
        works = train.workloads(model, batch)
        data = train.measure(works, train.Precision("bfloat16", "cuda"), 9, cache, compiled).data
        assert isinstance(data, train.TrainFacts)
        yield data
        if train.TURNS not in data.lacking[model]:
            return


SECONDS: Final = 8.0  # after which no round of a pair begins


@dataclass(frozen=True)
class Failed:
    """What could not be measured; the part goes on with the next.

    Attributes:
        what: it is.
        why: the exception.
    """

    what: str
    why: str


def attempted(what: str, measure: Callable[[], T]) -> Iterator[T | Failed]:
    """A fact, or that it could not be measured: for what other libraries raise."""
    try:
        yield measure()
    except RuntimeError as error:  # of a solver, or of memory
        yield Failed(what, reason(error))


def optimizer_steps(cache: Path) -> Iterator[Row | Failed]:
    """`htbench bench optimizers --device cuda --dtype bfloat16`, without peers; those with an SVD last."""
    settings = Settings(
        "llama-60m", {"vocabulary": 2048}, "cuda", dtype="bfloat16", limit=SECONDS, peers=False
    )
    svd = [name for name, status in STATUS.items() if status == 2]
    rows = sorted(entries(None), key=lambda one: one.name in svd or one.hyper.get("spectral") == "svd_power")
    bench, against = Bench(settings), entry(settings.against)
    for row in rows:
        yield from attempted(row.label, lambda: next(bench.rows([row], against, lambda _: None)))  # noqa: B023


# --- pieces ---


@dataclass(frozen=True)
class Timing:
    """How long a piece takes.

    Attributes:
        what: is timed.
        dtype: of it.
        shape: of the stack.
        milliseconds: median of a few calls, or the only one if it takes SECONDS.
        error: relative, in the Frobenius norm, where there is a truth; else None.
        solvers: calls of `eigh` that its operations are worth, where they are counted; else None.
    """

    what: str
    dtype: str
    shape: tuple[int, ...]
    milliseconds: float
    error: float | None = None
    solvers: float | None = None


def timings(what: str, work: Callable[[Tensor], object], *tensors: Tensor) -> Iterator[Timing | Failed]:
    """Time some work on each tensor."""
    for tensor in tensors:
        yield from attempted(what, partial(timing, what, work, tensor))


def timing(what: str, work: Callable[[Tensor], object], on: Tensor, calls: int = 5) -> Timing:
    """Time some work on a tensor, once to warm up and then a few times."""
    _, clock = clock_of("cuda", 1)
    times: list[float] = []
    while len(times) <= calls and max(times, default=0) < SECONDS:
        began = clock()
        work(on)
        times.append(clock() - began)
    median = statistics.median(times[1:] or times)
    return Timing(what, str(on.dtype).removeprefix("torch."), tuple(on.shape), 1e3 * median)


def solvers(cache: Path) -> Iterator[Timing | Failed]:
    """The solvers of Gram matrices and of matrices, in stacks."""
    for n in (512, 1024, 2048):
        for stack in (1, 8, 32):
            full = torch.randn(stack, n, n, device="cuda")
            gram = full @ full.mT
            yield from timings("eigh", torch.linalg.eigh, gram, gram.double())
            yield from timings("gram_power", partial(exact.gram_power, p=P), full)
            if n * stack <= 8 * 1024:  # of larger ones an SVD takes minutes
                yield from timings("svd", partial(torch.linalg.svd, full_matrices=False), full)


P: Final = 0.125
POWERS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "graded": partial(exact.graded_power, p=P),
    "graded on the CPU": lambda matrix: exact.graded_power(matrix.cpu(), P),
    "gram float32": partial(exact.gram_power, p=P, dtype=torch.float32),
    "svd": partial(exact.svd_power, p=P),
    "newton_schulz": newton_schulz,
}


def graded(cache: Path) -> Iterator[Timing | Failed]:
    """Exact powers on the momenta of a run, and on made spectra: log-spaced ones are the worst case."""
    *_, momenta = maps.captured(10, cache, "llama-60m", layers=1)
    cases = {f"momentum {tuple(one.shape)}": one for one in momenta.values()}
    cases["gaussian"] = torch.randn(512, 512, generator=torch.Generator().manual_seed(0))
    left, values, right = maps.factors_of(cases["gaussian"])
    cases["log-spaced"] = (left * torch.logspace(0, -9, 512, dtype=left.dtype) @ right).float()
    for label, matrix in cases.items():
        left, values, right = maps.factors_of(matrix)
        truth = left * values.pow(P) @ right
        for name, power in POWERS.items():
            yield from attempted(name, partial(_power, f"{name}: {label}", power, matrix, truth))


def _power(what: str, power: Callable[[Tensor], Tensor], matrix: Tensor, truth: Tensor) -> Timing:
    with CallCount() as counted:
        mapped = power(matrix.cuda()).double().cpu()
    error = ((mapped - truth).norm() / truth.norm()).item()
    worth = counted.flops[torch.ops.aten._linalg_eigh] / eigh((min(matrix.shape),) * 2)
    timed = timing(what, power, matrix.cuda())
    return replace(timed, error=None if power is newton_schulz else error, solvers=worth)


def layouts(cache: Path) -> Iterator[Timing | Failed]:
    """ResNet-18 on 128 images of CIFAR's size, forward and backward, in the two layouts."""
    model: Any = models.build("resnet18", classes=100).cuda()

    def work(images: Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):  # as its forward pass, which chooses the layout itself
            loss = model.fc(model.stages(model.stem(images)).mean(dim=(2, 3))).float().logsumexp(-1).sum()
        torch.autograd.backward(loss)

    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        for layout in (torch.contiguous_format, torch.channels_last):
            images = torch.randn(128, 3, 32, 32, device="cuda").contiguous(memory_format=layout)
            name = str(layout).removeprefix("torch.")
            yield from timings(
                f"resnet18, {name}, cudnn.benchmark {'on' if benchmark else 'off'}", work, images
            )


def widths(cache: Path) -> Iterator[Timing | Failed]:
    """An iteration of Newton-Schulz with llama-1b's width, and with zeros up to a multiple of 32."""
    for stack in (1, 8):
        for width in (5461, 5472):
            x = torch.randn(stack, 2048, width, device="cuda", dtype=torch.bfloat16) / 2048
            yield from timings("iteration of Newton-Schulz", polar.iterate, x)


@dataclass(frozen=True)
class Idle:
    """What of a training step the GPU does nothing in.

    Attributes:
        model, optimizer: that are trained, in bfloat16.
        milliseconds: of a step, by the events of torch's profiler, whose own cost is in it.
        idle: share of the time between the first and the last kernel in which none runs.
        kernels: and copies, of a step.
    """

    model: str
    optimizer: str
    milliseconds: float
    idle: float | None
    kernels: float


def idle(cache: Path) -> Iterator[Idle]:
    """Of llama-60m with four optimizers."""
    from torch.profiler import ProfilerActivity, profile

    for name in ("adamw", "muon", "htmuon", "htmuon_mix"):
        learner = learner_of("llama-60m", 64, 256, **{"optimizer.name": name})
        for step in range(3):
            learner.update(step)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            for step in range(3, 6):
                learner.update(step)
            torch.cuda.synchronize()
        spans = sorted(
            (event.time_range.start, event.time_range.end)
            for event in seen.events() or ()
            if event.device_type.name == "CUDA"
        )
        whole = max(end for _, end in spans) - spans[0][0] if spans else 0.0
        share = 1 - busy(spans) / whole if whole else None
        yield Idle("llama-60m", name, whole / 3e3, share, len(spans) / 3)


def busy(spans: list[tuple[float, float]]) -> float:
    """The length of the union of sorted intervals."""
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
