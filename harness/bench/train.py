"""A training step of our language models beside one of the same model in `transformers`.

Both sides have the same weights, batches, precision, attention (sdpa) and optimizer (the fused AdamW), and
take turns. Ours computes the loss as a run does, theirs by its own function, without a cache for generation.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

import models
from harness import tasks
from harness.bench.flops import Peak, clock_of
from harness.bench.measurement import Measurement
from harness.bench.pairs import Clock, take_turns
from harness.bench.twin import counterpart, twin
from harness.bench.workloads import Precision, Workload
from harness.cost.gpus import recognised
from harness.data.task import Batch
from harness.data.text import TextTask

TASK: Final = "pydocs"
LEAST_SPEEDUP, MOST_LOADING = 1.10, 0.02
BATCHES = 8  # different ones, taken in turns


class Trainer:
    """One side: a model that makes steps with the fused AdamW.

    Args:
        model: its parameters are trained.
        loss: mean loss of a batch.
        batches: on the device; a step takes the next.
        precision: of the forward pass.
        steps: of a turn.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Batch], Tensor],
        batches: list[Batch],
        precision: Precision,
        steps: int,
    ) -> None:
        self._loss, self._batches, self._precision, self._steps = loss, batches, precision, steps
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self._made = 0
        self.losses: list[float] = []

    def step(self, clock: Clock) -> float:
        """Make a turn's steps; return how long one took."""
        began = clock()
        for _ in range(self._steps):
            loss = self._one(self._batches[self._made % len(self._batches)])
        seconds = clock() - began
        self.losses.append(loss.item())
        return seconds / self._steps

    def _one(self, batch: Batch) -> Tensor:
        with self._precision.autocast():
            loss = self._loss(batch)
        torch.autograd.backward(loss)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._made += 1
        return loss.detach()


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
        found = [task.batch(step) for step in range(BATCHES)]
        return [Batch(b.inputs.contiguous(), b.targets.contiguous(), b.count).to(device) for b in found]

    def model(self) -> nn.Module:
        """Ours, freshly initialised."""
        torch.manual_seed(0)
        return models.build(self.work.model).to(self.precision.device, self.precision.params)

    def ours(self, model: nn.Module) -> Trainer:
        """Our side."""
        task, forward = self.task(), self._forward(model)
        return self._side(model, lambda batch: task.loss(forward, batch) / batch.count)

    def theirs(self, model: nn.Module) -> Trainer:
        """The other side. `shift_labels` are targets, so that theirs does not shift them itself."""
        forward = self._forward(model)
        return self._side(
            model, lambda one: forward(one.inputs, labels=one.targets, shift_labels=one.targets).loss
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

    def _forward(self, model: nn.Module) -> Any:
        return torch.compile(model) if self.compiled else model

    def _side(self, model: nn.Module, loss: Callable[[Batch], Tensor]) -> Trainer:
        return Trainer(model, loss, self.batches(), self.precision, self.work.steps)


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

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "tokens": self.work.tokens, "flops": self.work.flops}


def measure(setup: Setup, rounds: int, after_round: Callable[[], None] = lambda: None) -> TrainRow:
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
    gaps = (abs(a / b - 1) for a, b in zip(ours.losses, theirs.losses, strict=True))
    return TrainRow(
        setup.work,
        Measurement.of("ours", "ms/step", [1e3 * one for one in mine]),
        Measurement.of("transformers", "ms/step", [1e3 * one for one in other]),
        Measurement.of("transformers / ours", "x", [b / a for a, b in zip(mine, other, strict=True)]),
        tokens_per_second=setup.work.tokens / step,
        utilisation=setup.work.flops / step / peak,
        peak=peak,
        loading=loading_seconds(setup.task(), clock) / step,
        gap=max(gaps),
    )


def peak_rate(precision: Precision, clock: Clock) -> float:
    """Published for bfloat16 on the device, where we know it; else the best measured here."""
    if precision.device == "cuda" and precision.products == torch.bfloat16:
        known = recognised(torch.cuda.get_device_name())
        if known is not None:
            return known.rate("bfloat16")
    return Peak(precision.device, clock)[precision.products]


def loading_seconds(task: TextTask, clock: Clock, steps: int = 50) -> float:
    """Median time to gather a batch from prepared text."""
    return statistics.median(_timed(task, step, clock) for step in range(steps))


def _timed(task: TextTask, step: int, clock: Clock) -> float:
    began = clock()
    task.batch(step)
    return clock() - began
