"""A training step of our language models beside one of the same model in `transformers`, and the head's loss.

Both sides have the same weights, batches, precision, attention (sdpa) and optimizer (the fused AdamW), and
take turns. Ours computes the loss as a run does, theirs by its own function, without a cache for generation.
The chunked loss of the head is measured beside the plain one.
"""

from __future__ import annotations

import importlib.metadata
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

import models
from harness import tasks
from harness.bench.machine import Peak, check_device, fitting, in_fresh_process, peak_of
from harness.bench.turns import (
    DROPPED,
    INTERVAL,
    Benchmark,
    Clock,
    Measurement,
    Timed,
    clock_of,
    machine,
    take_turns,
)
from harness.bench.twin import counterpart, twin
from harness.data.loss import linear_cross_entropy
from harness.data.task import Batch, cross_entropy, in_float32
from harness.data.text import CHUNK_ABOVE, TextTask
from harness.show.note import Note
from harness.show.progress import Progress
from harness.show.report import Column, Report, table
from harness.system import environment

TASK: Final = "pydocs"
SIDES: Final = ("ours", "theirs")
TURNS: Final = "turns"
LEAST_SPEEDUP, MOST_LOADING = 1.10, 0.02
BATCHES = 8  # different ones, taken in turns
MEMORY_STEPS = 3  # the second one has the optimizer's state
_TINY = 1e-30  # below any loss but 0, which a device that computes nothing gives

# --- what is trained ---


@dataclass(frozen=True)
class Workload:
    """What is trained.

    Attributes:
        model: name of one of our models.
        batch: sequences.
        steps: timed together in a turn; more for a small model, whose steps are short.
        settings: of the model, all of them.
    """

    model: str
    batch: int
    steps: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Of a step; sequences are as long as the model takes."""
        return self.batch * int(self.settings["max_length"])

    @property
    def flops(self) -> float:
        """Of a step's matrix products: for every token 6 per weight, and 12 T D per layer for attention.

        Source: Chowdhery et al., "PaLM" (2022), appendix B. The embedding is a look-up and does not count.
        """
        s = self.settings
        # GPT-2's head is tied: its table of words is the head's matrix, and only positions are looked up.
        tables = s["vocabulary"] if self.model.startswith("llama") else s["max_length"]
        weights = models.count_parameters(self.model) - tables * s["hidden"]
        attention: int = 12 * s["layers"] * s["hidden"] * s["max_length"]
        return float(self.tokens * (6 * weights + attention))


ROWS: Final = (("llama-nano", 16, 20), ("llama-60m", 4, 1), ("gpt2-nano", 16, 20))


def workloads(model: str | None = None, batch: int | None = None) -> list[Workload]:
    """The rows of the benchmark, or one for a model; raises ValueError for an unknown model."""
    known = {name: (usual, steps) for name, usual, steps in ROWS}
    works = []
    for name in [model] if model else known:
        usual, steps = known.get(name, (8, 1))
        works.append(Workload(name, batch or usual, steps, models.spec(name).settings))
    return works


@dataclass(frozen=True)
class Precision:
    """How the products are computed.

    Attributes:
        name: "float32", "bfloat16" (parameters, too) or "autocast" (to bfloat16).
        device: "cpu" or "cuda".
    """

    name: str
    device: str

    @property
    def params(self) -> torch.dtype:
        """Of the parameters."""
        return torch.bfloat16 if self.name == "bfloat16" else torch.float32

    @property
    def products(self) -> torch.dtype:
        """Of the matrix products."""
        return torch.float32 if self.name == "float32" else torch.bfloat16

    def autocast(self) -> torch.autocast:
        """Around the forward pass."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.name == "autocast")


# --- two sides ---


class Trainer:
    """One side: a model that makes steps with the fused AdamW.

    Args:
        setup: what both sides share.
        model: its parameters are trained.
        loss: mean loss of the model on a batch.
    """

    def __init__(self, setup: Setup, model: nn.Module, loss: Callable[[Any, Batch], Tensor]) -> None:
        self._model: Any = torch.compile(model) if setup.compiled else model
        self._loss, self._batches = loss, setup.batches()
        self._precision, self._steps = setup.precision, setup.work.steps
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self._made = 0
        self.losses: list[float] = []

    def step(self, clock: Clock) -> float:
        """Make a turn's steps; return how long one took."""
        began = clock()
        for _ in range(self._steps):
            with self._precision.autocast():
                loss = self._loss(self._model, self._batches[self._made % len(self._batches)])
            torch.autograd.backward(loss)
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
            self._made += 1
        seconds = clock() - began
        self.losses.append(loss.item())
        return seconds / self._steps


@dataclass(frozen=True)
class Setup:
    """What both sides share.

    Attributes:
        work: the model and its batch.
        precision: of both.
        cache: folder for the prepared text.
        compiled: whether both models go through `torch.compile`.
    """

    work: Workload
    precision: Precision
    cache: Path
    compiled: bool = False

    def task(self) -> TextTask:
        """The text in sequences of the model's length. Its loss is that of the model's vocabulary."""
        length = self.work.settings["max_length"]
        task = cast(
            TextTask,
            tasks.build(TASK, cache=self.cache, batch_size=self.work.batch, seq_len=length, data_seed=0),
        )
        task.token_bytes = torch.ones(self.work.settings["vocabulary"])
        return task

    def batches(self) -> list[Batch]:
        """The first few, on the device, without gaps: `transformers` takes no others."""
        task, device = self.task(), self.precision.device
        batches = [task.batch(step) for step in range(BATCHES)]
        return [Batch(b.inputs.contiguous(), b.targets.contiguous(), b.count).to(device) for b in batches]

    def model(self) -> nn.Module:
        """Ours, freshly initialised."""
        torch.manual_seed(0)
        return models.build(self.work.model).to(self.precision.device, self.precision.params)

    def ours(self, model: nn.Module) -> Trainer:
        """Our side."""
        task = self.task()
        return Trainer(self, model, lambda model, batch: task.loss(model, batch) / batch.count)

    def theirs(self, model: nn.Module) -> Trainer:
        """The other side. `shift_labels` are targets, so that theirs does not shift them itself."""
        return Trainer(
            self, model, lambda model, b: model(b.inputs, labels=b.targets, shift_labels=b.targets).loss
        )

    def both(self) -> tuple[Trainer, Trainer]:
        """Ours and theirs, with the same weights."""
        model = self.model()
        return self.ours(model), self.theirs(twin(self.work.model, model, self.work.settings))

    def alone(self, side: str) -> Trainer:
        """Only one side, for its memory."""
        if side == "ours":
            return self.ours(self.model())
        model = counterpart(self.work.model, self.work.settings)
        return self.theirs(model.to(self.precision.device, self.precision.params))


@dataclass(frozen=True)
class TrainRow:
    """The measurements of one workload.

    Attributes:
        work: what was trained.
        ours, theirs: milliseconds per step.
        speedup: theirs / ours.
        tokens_per_second: ours.
        utilisation: of ours, the products' operations per second as a fraction of `peak`.
        peak: operations per second.
        loading: the time to gather a batch as a fraction of our step.
        gap: largest relative difference of the two sides' losses at the end of their turns.
        tokens, flops: of a step.
    """

    work: Workload
    ours: Measurement
    theirs: Measurement
    speedup: Measurement
    tokens_per_second: float
    utilisation: float
    peak: float
    loading: float
    gap: float
    tokens: int
    flops: float


def times_of(setup: Setup, rounds: int, after_round: Callable[[], None] = lambda: None) -> TrainRow:
    """Let both sides take turns.

    Args:
        setup: what both share.
        rounds: as in `take_turns`.
        after_round: called after every round.
    """
    _, clock = clock_of(setup.precision.device, torch.get_num_threads())
    ours, theirs = setup.both()
    times = take_turns(ours, theirs, rounds, clock, after_round=after_round)
    mine, other = ([statistics.fmean(two) for two in side] for side in times)
    step = statistics.median(mine)
    peak = peak_rate(setup.precision, clock)
    gaps = (abs(a - b) / max(abs(b), _TINY) for a, b in zip(ours.losses, theirs.losses, strict=True))
    return TrainRow(
        setup.work,
        Measurement.milliseconds("ours", mine),
        Measurement.milliseconds("transformers", other),
        Measurement.ratio("transformers / ours", "x", other, mine),
        tokens_per_second=setup.work.tokens / step,
        utilisation=setup.work.flops / step / peak,
        peak=peak,
        loading=loading_seconds(setup.task(), clock) / step,
        gap=max(gaps),
        tokens=setup.work.tokens,
        flops=setup.work.flops,
    )


def peak_rate(precision: Precision, clock: Clock) -> float:
    """The best measured here."""
    return Peak(precision.device, clock)[str(precision.products).removeprefix("torch.")]


def loading_seconds(task: TextTask, clock: Clock, steps: int = 50) -> float:
    """Median time to gather a batch from prepared text."""
    seconds = []
    for step in range(steps):
        began = clock()
        task.batch(step)
        seconds.append(clock() - began)
    return statistics.median(seconds)


def memory_of(setup: Setup, side: str) -> int:
    """Peak bytes of a few steps of "ours" or "theirs" with weights and optimizer; in a process of its own."""
    small = "gpt2-nano" if setup.work.model.startswith("gpt2") else "llama-nano"
    (warm_up,) = workloads(small, batch=1)

    def train(setup: Setup, side: str) -> None:
        trainer = setup.alone(side)
        for _ in range(MEMORY_STEPS):
            trainer.step(lambda: 0.0)

    for each in SIDES:  # loads what either imports when it is first used
        train(replace(setup, work=warm_up), each)
    return peak_of(lambda: train(setup, side), setup.precision.device)


# --- the loss of the head ---

LOSS_SHAPE = (2048, 512, 32000)  # tokens, width and words: eight sequences of llama-60m


def loss_side(kind: str, rows: int, hidden: int, words: int, dtype: torch.dtype, device: str) -> Timed:
    """The loss of random hidden states and its gradients: "chunked" or "plain", with inputs of its own.

    They are the same for both.
    """
    generator = torch.Generator().manual_seed(0)
    states = torch.empty(rows, hidden, dtype=dtype).normal_(generator=generator).to(device)
    weight = torch.empty(words, hidden, dtype=dtype).normal_(std=0.02, generator=generator).to(device)
    targets = torch.randint(words, (rows,), generator=generator).to(device)
    inputs = (states.requires_grad_(), weight.requires_grad_())
    loss_of = linear_cross_entropy if kind == "chunked" else _plain

    def work() -> Tensor:
        loss = loss_of(*inputs, targets)
        torch.autograd.backward(loss / len(targets))
        return loss.detach()

    def forget() -> None:
        for tensor in inputs:
            tensor.grad = None

    return Timed(work, forget)


def _plain(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(in_float32(hidden @ weight.T), targets)


@dataclass(frozen=True)
class LossRow:
    """Time and memory of both.

    Attributes:
        dtype: of hidden states and weights.
        ratio: time of the chunked loss / of the plain one.
        chunked_bytes, plain_bytes: peak memory, inputs included.
    """

    dtype: str
    ratio: Measurement
    chunked_bytes: int
    plain_bytes: int


def loss_row(dtype: torch.dtype, device: str, rounds: int) -> LossRow | None:
    """Measure both; None if memory lacks for one of them."""
    ratio = fitting(_loss_ratio, dtype, device, rounds)
    peaks = [
        fitting(in_fresh_process, memory_of_loss, kind, *LOSS_SHAPE, dtype, device)
        for kind in ("chunked", "plain")
    ]
    if ratio is None or peaks[0] is None or peaks[1] is None:
        return None
    return LossRow(str(dtype).removeprefix("torch."), ratio, peaks[0], peaks[1])


def _loss_ratio(dtype: torch.dtype, device: str, rounds: int) -> Measurement:
    _, clock = clock_of(device, torch.get_num_threads())
    sides = [loss_side(kind, *LOSS_SHAPE, dtype, device) for kind in ("chunked", "plain")]
    ours, theirs = take_turns(sides[0], sides[1], rounds, clock)
    return Measurement.ratio("chunked / plain", "x", list(map(sum, ours)), list(map(sum, theirs)))


def memory_of_loss(kind: str, rows: int, hidden: int, words: int, dtype: torch.dtype, device: str) -> int:
    """Peak bytes of the head's loss and its gradients, inputs included; in a process of its own."""
    loss_side(kind, 1, 1, 2, dtype, device).step(lambda: 0.0)
    return peak_of(lambda: loss_side(kind, rows, hidden, words, dtype, device).step(lambda: 0.0), device)


# --- the report ---


def measure(
    works: Sequence[Workload], precision: Precision, rounds: int, cache: Path, compiled: bool
) -> Report:
    """Measure every workload, and the loss of the head where it is the chunked one.

    A part for which memory lacks is left out. One process at a time has memory on the device: the two sides
    in turns, then each alone in a process of its own.

    Raises:
        UsageError: there is no such device.
    """
    check_device(precision.device)
    torch.set_num_threads(1)
    setups = [Setup(work, precision, cache, compiled) for work in works]
    rows: list[TrainRow] = []
    with Progress(len(works) * (DROPPED + rounds), "rounds", parts=len(works)) as progress:
        for setup in setups:
            progress.begin(setup.work.model)
            row = fitting(times_of, setup, rounds, progress.advance)
            rows += [row] if row else []
    timed = {row.work.model for row in rows}
    peaks: dict[str, list[int]] = {}
    lacking: dict[str, list[str]] = {}
    for setup in setups:
        name = setup.work.model
        found = {side: fitting(in_fresh_process, memory_of, setup, side) for side in SIDES}
        peaks[name] = [one for one in found.values() if one is not None]
        missing = [side for side, one in found.items() if one is None]
        lacking[name] = ([] if name in timed else [TURNS]) + missing
    large = any(work.settings["vocabulary"] > CHUNK_ABOVE for work in works)  # their loss is the chunked one
    loss = loss_row(precision.params, precision.device, rounds) if large else None
    return report(
        TrainFacts(
            subject="train",
            environment=environment.describe_with_cpu_flags(precision.device, tasks.fingerprint(TASK)),
            dtype=precision.name,
            compile=compiled,
            device=precision.device,
            rounds=rounds,
            clock=clock_of(precision.device, 1)[0],
            transformers=importlib.metadata.version("transformers"),
            rows=rows,
            peak_bytes=peaks,
            losses=[loss] if loss else [],
            works=works,
            lacking=lacking,
        )
    )


@dataclass(frozen=True)
class TrainFacts(Benchmark):
    """The report.

    Attributes:
        dtype: as given.
        compile: as given.
        device: as given.
        rounds: as given.
        clock: what times are of.
        transformers: the version of that package.
        works: the workloads.
        lacking: by model what the device lacks memory for: both sides in "turns", "ours" or "theirs" alone.
        rows: the measurements of the other workloads.
        peak_bytes: by model: ours, theirs, as far as the memory holds them.
        losses: of the loss that is measured alone.
        loss_shape: tokens, width and words of that loss.
        least_speedup, most_loading: targets.
    """

    dtype: str
    compile: bool
    device: str
    rounds: int
    clock: str
    transformers: str
    works: Sequence[Workload]
    lacking: Mapping[str, Sequence[str]]
    rows: Sequence[TrainRow]
    peak_bytes: Mapping[str, Sequence[int]]
    losses: Sequence[LossRow]
    loss_shape: tuple[int, ...] = LOSS_SHAPE
    least_speedup: float = LEAST_SPEEDUP
    most_loading: float = MOST_LOADING


_COLUMNS = (
    Column("model", kind="text"),
    Column("batch", kind="text", importance=4),
    Column("n", importance=3),
    Column("ms", "ms/step", unit="ms"),
    Column("theirs", unit="ms"),
    Column("speed", digits=3, importance=9),
    INTERVAL,
    Column("tokens_per_second", "tokens/s", digits=0, importance=4),
    Column("peak", unit="%", importance=3),
    Column("bytes", "MiB", unit="MiB", importance=3),
    Column("their_bytes", "theirs", unit="MiB", importance=3),
    Column("loading_percent", "data %", digits=1, importance=2),
)


def _cells(facts: TrainFacts, work: Workload) -> list[Any]:
    about = [work.model, f"{work.batch} x {work.settings['max_length']}"]
    measured, lacking = iter(facts.peak_bytes[work.model]), facts.lacking[work.model]
    peaks = [None if side in lacking else next(measured) for side in SIDES]
    for row in facts.rows:
        if row.work == work:
            times = [row.ours.n, row.ours.median, row.theirs.median, row.speedup.median, row.speedup.interval]
            return [*about, *times, row.tokens_per_second, row.utilisation, *peaks, 100 * row.loading]
    return [*about, *[None] * 7, *peaks, None]


def report(facts: TrainFacts) -> Report:
    """A line per model, ours beside that of `transformers`, then the loss."""
    rows = facts.rows
    compiled = ", compiled" if facts.compile else ""
    title = (
        f"{facts.dtype}{compiled}, {facts.device}, 1 CPU thread, {facts.clock}, "
        f"transformers {facts.transformers}"
    )
    cells = [_cells(facts, work) for work in facts.works]
    rate = f"{rows[0].peak / 1e9:.4g}" if rows else None
    notes = [Note("bench_train_columns", speedup=LEAST_SPEEDUP, peak=rate, loading=MOST_LOADING)]
    notes += [Note("bench_gap", gap=max(row.gap for row in rows))] if rows else []
    lacking = [f"{name} ({', '.join(parts)})" for name, parts in facts.lacking.items() if parts]
    notes += [Note("bench_lacks_memory", lacking=lacking)] if lacking else []
    n, hidden, words = facts.loss_shape
    for loss in facts.losses:
        sizes = {
            "ours": loss.chunked_bytes,
            "plain": loss.plain_bytes,
            "n": n,
            "hidden": hidden,
            "words": words,
        }
        words_ = {"dtype": loss.dtype, "ratio": loss.ratio.median, "interval": loss.ratio.interval}
        notes.append(Note("bench_loss", **words_, **sizes))
    above = machine(facts.environment, in_bfloat16=facts.dtype != "float32")
    return Report("bench train", title, [table(_COLUMNS, cells, above=above, notes=notes)], data=facts)
