"""A forward and a backward pass of a run, and a pass without gradients, on tensors without memory.

They are fake tensors of the CPU: those of a GPU need a torch that was built for one, and a login node may
have none. What a GPU does otherwise in a pass: attention with dropout has a kernel there that keeps no T x T
weights, RMSNorm one that keeps its input and a number per row, and the chunks of the loss are larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from harness.config import RunConfig
from harness.cost.ledger import Ledger, Tally
from harness.cost.shapes import LM, Shapes
from harness.data.images import ImageTask
from harness.data.loss import CHUNK_LOGITS
from harness.data.task import SPLITS, Batch, cross_entropy, evaluating
from harness.parallel.group import ALONE, buckets, flattened
from harness.train.building import build_model

if TYPE_CHECKING:
    from harness.data.text import TextTask

    DataTask: TypeAlias = TextTask | ImageTask


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


def run(config: RunConfig, shapes: Shapes, device: str) -> Passes:
    """Make the passes of a process's micro-batch, as on "cpu" or "cuda"; twice if a step has several."""
    share = -(-config.batch_size // config.processes)
    samples = min(share, config.micro_batch or share)
    micros = -(-share // samples)
    mode, ledger, task = FakeTensorMode(allow_non_fake_inputs=True), Ledger(), fake_task(shapes)
    model = fake_model(config, task, mode)
    ledger.follow([*model.parameters(), *model.buffers()])
    weights = ledger.live
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=config.precision.autocast != "none")
    with mode, ledger, _as_on_a_gpu() if device == "cuda" else nullcontext():
        batch = _fake_batch(shapes, samples)
        inputs = ledger.live - weights
        for _ in range(min(micros, 2)):
            before = ledger.live
            ledger.phases.pop("recomputation", None)
            with ledger.phase("forward"), autocast, _at_the_end(model, ledger) as alive:
                loss = task.loss(model, batch)
            with ledger.phase("backward"):  # leaves the gradients in the parameters
                torch.autograd.backward(loss / batch.count)
            del loss
        activations = max(0, alive[0] - before) if alive else 0
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


@contextmanager
def _at_the_end(model: nn.Module, ledger: Ledger) -> Iterator[list[int]]:
    """The bytes that are alive at the end of the model's forward pass, without those of its output."""
    alive: list[int] = []

    def note(_: nn.Module, __: Any, output: torch.Tensor) -> None:
        alive.append(ledger.live - output.untyped_storage().nbytes())

    hook = model.register_forward_hook(note)
    try:
        yield alive
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


def _curvature(task: DataTask, model: nn.Module, batch: Batch, autocast: torch.autocast) -> None:
    """Sophia's second pass, on targets drawn from whole logits (`harness/train/curvature.py`)."""
    with autocast:
        logits = task.logits(model, batch)
        with torch.no_grad():
            logits.softmax(dim=-1).cumsum_(dim=-1)
        loss = cross_entropy(logits, batch.targets)
    torch.autograd.backward(loss / batch.count)


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    fused = F.scaled_dot_product_attention

    def without_dropout(*args: Any, dropout_p: float = 0.0, **kwargs: Any) -> Tensor:
        return fused(*args, **kwargs)

    in_parts = F.rms_norm

    def rms_norm(
        x: Tensor, shape: list[int], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        if weight is None or weight.dtype != x.dtype:  # CUDA has no kernel for it, either
            return in_parts(x, shape, weight, eps)
        made: Tensor = _FusedRMSNorm.apply(x, weight)  # type: ignore[no-untyped-call]
        return made

    with (
        patch.object(F, "scaled_dot_product_attention", without_dropout),
        patch.object(F, "rms_norm", rms_norm),
        patch.dict(CHUNK_LOGITS, cpu=CHUNK_LOGITS["cuda"]),
    ):
        yield


class _FusedRMSNorm(torch.autograd.Function):
    """What `aten::_fused_rms_norm` reads, writes and keeps on CUDA; on a CPU torch takes it apart."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1], dtype=torch.float32))
        return x * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, weight, _ = ctx.saved_tensors
        return gradients[0] * x, torch.empty_like(weight)


# --- a run's task, model and batch, which have shapes and no memory ---


def fake_task(shapes: Shapes) -> DataTask:
    """A task of these sizes with the loss of ours, and without data."""
    options = shapes.options
    if shapes.kind == LM:
        from harness.data.text import TextTask  # its tokenizer takes longer to import than images to count

        length, streams = options["max_length"], {split: np.zeros(0, dtype=np.uint16) for split in SPLITS}
        lengths = np.ones(options["vocabulary"], dtype=np.int64)
        return TextTask(streams, lengths, batch_size=1, seq_len=length, data_seed=0, held_out_tokens=length)
    side = options["image_size"]
    images = {split: torch.empty(0, options["in_channels"], side, side) for split in SPLITS}
    labels = {split: torch.empty(0, dtype=torch.int64) for split in SPLITS}
    return ImageTask(images, labels, classes=options["classes"], batch_size=1, data_seed=0)


def fake_model(config: RunConfig, task: DataTask, mode: FakeTensorMode) -> nn.Module:
    """The model that the run will train; tensors that its modules share stay shared."""
    meta, cpu = torch.device("meta"), torch.device("cpu")
    with meta:
        model = build_model(config, task, meta, ALONE)
    made: dict[Tensor, Tensor] = {}

    def replace(held: dict[str, Any], make: Callable[[Tensor], Tensor]) -> None:
        for name, tensor in held.items():
            if tensor is not None:
                if tensor not in made:
                    made[tensor] = make(tensor)
                held[name] = made[tensor]

    for part in model.modules():
        replace(part._parameters, lambda p: nn.Parameter(FakeTensor(mode, p.detach(), cpu), p.requires_grad))
        replace(part._buffers, lambda x: FakeTensor(mode, x, cpu))
    return model


def _fake_batch(shapes: Shapes, samples: int) -> Batch:
    """Inputs and targets of so many samples; made inside of a fake mode."""
    options = shapes.options
    if shapes.kind == LM:
        rows = torch.empty(samples, options["max_length"], dtype=torch.int64)
        return Batch(rows, torch.empty_like(rows), rows.numel())
    side = options["image_size"]
    images = torch.empty(samples, options["in_channels"], side, side)
    return Batch(images, torch.empty(samples, dtype=torch.int64), samples)
