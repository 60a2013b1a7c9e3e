"""The model of a run, its task and its batch as fake tensors, which have shapes and no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from harness.config import RunConfig
from harness.cost.shapes import LM, Shapes
from harness.data.images import ImageTask
from harness.data.task import SPLITS, Batch
from harness.parallel.group import ALONE
from harness.train.model import build_model

if TYPE_CHECKING:
    from harness.data.text import TextTask

    DataTask: TypeAlias = TextTask | ImageTask


def task(config: RunConfig, shapes: Shapes) -> DataTask:
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


def model(config: RunConfig, of: DataTask, mode: FakeTensorMode, device: torch.device) -> nn.Module:
    """The model that the run will train, on the device."""
    meta = torch.device("meta")
    with meta:
        built = build_model(config, of, meta, ALONE)
    made: dict[Tensor, Tensor] = {}
    for part in built.modules():
        _replace(part._parameters, made, lambda p: _parameter(mode, p, device))
        _replace(part._buffers, made, lambda x: FakeTensor(mode, x, device))
    return built


def _parameter(mode: FakeTensorMode, p: Tensor, device: torch.device) -> Tensor:
    return nn.Parameter(FakeTensor(mode, p.detach(), device), p.requires_grad)


def _replace(held: dict[str, Any], made: dict[Tensor, Tensor], make: Callable[[Tensor], Tensor]) -> None:
    """Put fake tensors in place of those that a module holds; shared ones stay shared."""
    for name, tensor in held.items():
        if tensor is not None:
            made.setdefault(tensor, tensor)
            if made[tensor] is tensor:
                made[tensor] = make(tensor)
            held[name] = made[tensor]


def batch(shapes: Shapes, samples: int, device: torch.device) -> Batch:
    """Inputs and targets of so many samples; made inside of a fake mode."""
    options = shapes.options
    if shapes.kind == LM:
        rows = torch.empty(samples, options["max_length"], dtype=torch.int64, device=device)
        return Batch(rows, torch.empty_like(rows), rows.numel())
    side = options["image_size"]
    images = torch.empty(samples, options["in_channels"], side, side, device=device)
    return Batch(images, torch.empty(samples, dtype=torch.int64, device=device), samples)
