"""What a run records of singular values while it trains: of its weights, and of its updates at chosen steps.

Nothing here changes the numbers of the run, and no timed step has any of it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness.config import SpectraConfig
from harness.spectra import layers
from harness.store.curve import Metrics, MetricsFile
from harness.train.learner import Learner
from optimizers.watch import Update, watching

log = logging.getLogger("htbench")

Row = dict[str, Any]


class Recorder:
    """Measures spectra at the steps that the config names.

    Args:
        config: of the run.
        total: updates of the run.

    Attributes:
        watched: the steps whose updates are recorded.
        marks: the steps after which to read the clock, so that those are not in the time of others.
    """

    def __init__(self, config: SpectraConfig, total: int) -> None:
        self.config, self.total = config, total
        self.watched = {max(1, round(fraction * total)) for fraction in config.updates}
        self.marks = self.watched | {step - 1 for step in self.watched}
        self.rows = Metrics()

    @contextmanager
    def recording(self, path: Path, step: int, learner: Learner) -> Iterator[None]:
        """Open the file, if there is anything to write or to cut off.

        Args:
            path: the file; rows after `step` are cut off first.
            step: updates made so far.
            learner: what to measure. Of several processes the main one writes.
        """
        self.learner = learner
        wanted = self.config.every or self.config.final or self.watched or path.exists()
        with MetricsFile(path, step) if wanted and learner.group.is_main else Metrics() as self.rows:
            yield

    def flush(self) -> None:
        """Write buffered rows, and wait until they are on the disk."""
        self.rows.flush(durable=True)

    def is_due(self, step: int) -> bool:
        """Whether to measure the weights after this step."""
        every = self.config.every
        if step == self.total:
            return bool(every or self.config.final)
        return bool(every) and step % every == 0

    def measure(self, step: int) -> None:
        """Write a row for each layer. The main process of several does it alone."""
        if not self.learner.group.is_main:
            return
        how = {"method": self.config.method, "include": self.config.layers}
        for layer in layers.measure(self.learner.model, **how, random_baseline=True):
            values = dataclasses.asdict(layer) | {"method": self.config.method}
            self.rows.add_layer(step, values.pop("name"), values)

    @contextmanager
    def watching(self, step: int) -> Iterator[None]:
        """Record the updates that are made meanwhile, if this is one of the steps for it.

        Each process measures the matrices that it steps; the main one writes all of them.
        """
        if step not in self.watched:
            yield
            return
        learner = self.learner
        watch = _Watch(learner, self.config.layers)
        with watching(watch.see):
            yield
        watch.see_adam(learner.optimizer)
        ours = watch.rows if learner.group.is_main or learner.shards.owners is not None else {}
        gathered: dict[str, Row] = {}
        for one in learner.group.all_gather(ours):
            gathered |= one
        for name in watch.names.values():
            if name in gathered:
                self.rows.add_layer(step, name, gathered[name])
        if lacking := len(watch.names) - len(gathered):
            log.info("step %d: %d of %d updates show no matrix", step, lacking, len(watch.names))


class _Watch:
    """The updates of one step that this process makes, by the names of their layers."""

    def __init__(self, learner: Learner, include: str) -> None:
        self.names = {layer.weight: layer.name for layer in layers.find(learner.model, include)}
        self.rows: dict[str, Row] = {}

    def see(self, W: Tensor, update: Update) -> None:
        """Measure an update while it exists."""
        if W in self.names:
            row = {"update": _values(update.result, update.blocks)}
            if update.momentum is not None:
                row["momentum"] = _values(update.momentum, update.blocks)
            self.rows[self.names[W]] = row

    def see_adam(self, optimizer: torch.optim.Optimizer) -> None:
        """Measure the steps of torch's AdamW. Its kernel shows none, but its state tells them."""
        for group in optimizer.param_groups:
            for W in group["params"]:
                if W in self.names and "exp_avg" in optimizer.state.get(W, {}):
                    self.rows[self.names[W]] = {"update": _values(_adam(optimizer.state[W], group))}


def _adam(state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps), what lr multiplies in the step that was made last."""
    (b1, b2), t = group["betas"], float(state["step"])
    root = state["exp_avg_sq"].div(1 - b2**t).sqrt_().add_(group["eps"])
    step: Tensor = state["exp_avg"].div(1 - b1**t).div_(root)
    return step


def _values(matrix: Tensor, blocks: int = 1) -> list[float]:
    """The singular values of an update, descending; of a kernel those of its matrix (out, in height width)."""
    parts = matrix.detach().flatten(1).chunk(blocks)
    return sorted((float(s) for part in parts for s in layers.singular_values(part)), reverse=True)
