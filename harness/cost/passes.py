"""A forward and a backward pass of a run, and a pass without gradients, on fake tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.config import RunConfig
from harness.cost import fake
from harness.cost.ledger import Ledger, Tally
from harness.cost.shapes import Shapes
from harness.data.task import evaluating
from harness.parallel.group import buckets, flattened


@dataclass(frozen=True)
class Passes:
    """What the passes of one micro-batch take; bytes of peaks hold weights and gradients, too.

    Attributes:
        samples: of the micro-batch.
        micros: how many of them the process has in a step.
        forward, backward, recomputation, evaluation, exchange: see `Ledger`.
        weights: bytes of parameters and buffers.
        gradients: bytes.
        batch: bytes of inputs and targets on the device.
        activations: bytes that the forward pass of the model leaves for the backward pass.
        kept: bytes that are alive besides weights, gradients and batch after the loss.
    """

    samples: int
    micros: int
    forward: Tally
    backward: Tally
    recomputation: Tally
    evaluation: Tally
    exchange: Tally
    weights: int
    gradients: int
    batch: int
    activations: int
    kept: int


def run(config: RunConfig, shapes: Shapes) -> Passes:
    """Make the passes of the largest micro-batch of a process, twice if a step has several."""
    device = torch.device("cpu")  # fake tensors of a GPU need a torch that was built for one
    share = -(-config.batch_size // config.processes)
    samples = min(share, config.micro_batch or share)
    micros = -(-share // samples)
    mode, ledger = FakeTensorMode(allow_non_fake_inputs=True), Ledger()
    task = fake.task(config, shapes)
    model = fake.model(config, task, mode, device)
    ledger.follow([*model.parameters(), *model.buffers()])
    weights = ledger.live
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=config.precision.autocast != "none")
    with mode, ledger:
        batch = fake.batch(shapes, samples, device)
        whole = ledger.live - weights
        for _ in range(min(micros, 2)):
            before = ledger.live
            with ledger.phase("forward") as forward, autocast:
                hook = model.register_forward_hook(lambda *_: held.append(ledger.live - before))
                held: list[int] = []
                loss = task.loss(model, batch)
                hook.remove()
            kept = ledger.live - before
            with ledger.phase("backward") as backward:
                torch.autograd.backward(loss / batch.count)
            del loss
        gradients = ledger.live - weights - whole
        with ledger.phase("exchange") as exchange:
            _exchange(config, model)
        model.zero_grad()
        with ledger.phase("evaluation") as evaluation, evaluating(model), autocast:
            task.loss(model, batch)
    return Passes(
        samples,
        micros,
        forward,
        backward,
        ledger.phases["recomputation"],
        evaluation,
        exchange,
        weights,
        gradients,
        whole,
        activations=held[0] if held else kept,
        kept=kept,
    )


def _exchange(config: RunConfig, model: nn.Module) -> None:
    """What several processes do with their gradients, without the sending (`harness/parallel/group.py`)."""
    if config.processes > 1:
        for bucket in buckets([p.grad for p in model.parameters() if p.grad is not None]):
            flattened(bucket)
