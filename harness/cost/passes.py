"""A forward and a backward pass of a run, and a pass without gradients, on fake tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.config import RunConfig
from harness.cost import fake, on_gpu
from harness.cost.ledger import Ledger, Tally
from harness.cost.shapes import Shapes
from harness.data.task import Batch, cross_entropy, evaluating
from harness.parallel.group import buckets, flattened

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Passes:
    """What the passes of one micro-batch take. Peaks hold weights, gradients and batch, too.

    Attributes:
        samples: of the micro-batch.
        micros: how many of them a process has in a step.
        phases: "forward", "backward", "recomputation", "exchange" (of gradients between processes),
            "curvature" (Sophia's second pass) and "evaluation" (without gradients); see `Tally`.
        weights: bytes of parameters and buffers.
        gradients: bytes.
        batch: bytes of the inputs and targets.
        activations: bytes that the model's forward pass leaves for the backward pass, without its output.
        before: bytes that are alive before the last forward pass.
        curvature_interval: steps from one second pass to the next; 1 if there is none.
    """

    samples: int
    micros: int
    phases: dict[str, Tally]
    weights: int
    gradients: int
    batch: int
    activations: int
    before: int
    curvature_interval: int

    @property
    def training(self) -> list[Tally]:
        """The phases of every micro-batch."""
        return [self.phases[name] for name in ("forward", "backward", "recomputation")]


def run(config: RunConfig, shapes: Shapes, device: str) -> Passes:
    """Make the passes of a process's micro-batch, as on "cpu" or "cuda"; twice if a step has several."""
    share = -(-config.batch_size // config.processes)
    samples = min(share, config.micro_batch or share)
    micros = -(-share // samples)
    mode, ledger = FakeTensorMode(allow_non_fake_inputs=True), Ledger()
    task = fake.task(config, shapes)
    model = fake.model(config, task, mode, _CPU)
    ledger.follow([*model.parameters(), *model.buffers()])
    weights = ledger.live
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=config.precision.autocast != "none")
    with mode, ledger, on_gpu.attention() if device == "cuda" else nullcontext():
        batch = fake.batch(shapes, samples, _CPU)
        inputs = ledger.live - weights
        for _ in range(min(micros, 2)):
            before = ledger.live
            activations = _train(ledger, task, model, batch, autocast)
        with ledger.phase("exchange"):
            _exchange(config, model)
        gradients = ledger.live - weights - inputs
        model.zero_grad()
        interval = curvature_interval(config)
        if interval:
            with ledger.phase("curvature"):
                _curvature(task, model, batch, autocast)
            model.zero_grad()
        with ledger.phase("evaluation"), evaluating(model), autocast:
            task.loss(model, batch)
    sizes = (weights, gradients, inputs, activations, before)
    return Passes(samples, micros, ledger.phases, *sizes, curvature_interval=interval or 1)


def _train(
    ledger: Ledger, task: fake.DataTask, model: nn.Module, batch: Batch, autocast: torch.autocast
) -> int:
    """Leave the gradients in the parameters; return the bytes of activations."""
    before = ledger.live
    ledger.phases.pop("recomputation", None)
    with ledger.phase("forward"), autocast, _at_the_end(model, ledger) as found:
        loss = task.loss(model, batch)
    with ledger.phase("backward"):
        torch.autograd.backward(loss / batch.count)
    return max(0, found[0] - before) if found else 0


@contextmanager
def _at_the_end(model: nn.Module, ledger: Ledger) -> Iterator[list[int]]:
    """The bytes that are alive at the end of the model's forward pass, without those of its output."""
    found: list[int] = []

    def note(_: nn.Module, __: Any, output: torch.Tensor) -> None:
        found.append(ledger.live - output.untyped_storage().nbytes())

    hook = model.register_forward_hook(note)
    try:
        yield found
    finally:
        hook.remove()


def _exchange(config: RunConfig, model: nn.Module) -> None:
    """What several processes do with their gradients, without the sending (`harness/parallel/group.py`)."""
    if config.processes > 1:
        for bucket in buckets([p.grad for p in model.parameters() if p.grad is not None]):
            flattened(bucket)


def curvature_interval(config: RunConfig) -> int:
    """Steps between two estimates of Sophia; 0 for all other rules."""
    hyper = config.optimizer.hyper
    return 0 if hyper.get("sign_momentum") else int(hyper.get("curvature_interval", 0))


def _curvature(task: fake.DataTask, model: nn.Module, batch: Batch, autocast: torch.autocast) -> None:
    """Sophia's second pass, on targets drawn from whole logits (`harness/train/curvature.py`)."""
    with autocast:
        logits = task.logits(model, batch)
        with torch.no_grad():
            logits.softmax(dim=-1).cumsum_(dim=-1)
        loss = cross_entropy(logits, batch.targets)
    torch.autograd.backward(loss / batch.count)
