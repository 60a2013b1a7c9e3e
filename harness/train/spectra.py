"""What a run records of singular values while it trains: of its weights, and of its updates at chosen steps.

Nothing here changes the numbers of the run, and no timed step has any of it.
"""

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW

from htbench.harness.config import RunConfig
from htbench.harness.spectra import layers
from htbench.harness.store.curve import Metrics, MetricsFile
from htbench.harness.train.learner import Learner
from htbench.optimizers.watch import Update, watching

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

    def __init__(self, config: RunConfig, total: int) -> None:
        self.config, self.threads, self.total = config.spectra, config.threads, total
        self.watched = {max(1, round(fraction * total)) for fraction in self.config.updates}
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
        method, model = self.config.method, self.learner.model
        with _threads(self.threads):
            found = layers.measure(model, method=method, include=self.config.layers, random_baseline=True)
        for layer in found:
            values = dataclasses.asdict(layer) | {"method": method}
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
        watch = _Watch(learner, self.config.layers, self.threads)
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

    def __init__(self, learner: Learner, include: str, threads: int) -> None:
        self.threads = threads
        chosen = set(layers.layer_names(learner.model, include=include))
        params = learner.model.named_parameters()
        self.names: dict[Tensor, str] = {param: name for name, param in params if name in chosen}
        self.rows: dict[str, Row] = {}

    def see(self, param: Tensor, update: Update) -> None:
        """Measure an update while it exists."""
        if param in self.names:
            row = self._row(update.result, update.blocks)
            if update.momentum is not None:
                row["momentum"] = self._values(update.momentum, update.blocks)
            self.rows[self.names[param]] = row

    def see_adam(self, optimizer: torch.optim.Optimizer) -> None:
        """Measure the steps of torch's Adam and AdamW, whose kernel shows none, from their state."""
        for part in getattr(optimizer, "parts", (optimizer,)):
            for group in part.param_groups if isinstance(part, Adam | AdamW) else ():
                for param in group["params"]:
                    if param in self.names and "exp_avg" in part.state.get(param, {}):
                        self.rows[self.names[param]] = self._row(_adam(part.state[param], group))

    def _row(self, update: Tensor, blocks: int = 1) -> Row:
        rows, cols = update.flatten(1).shape
        return {"rows": rows // blocks, "cols": cols, "update": self._values(update, blocks)}

    def _values(self, matrix: Tensor, blocks: int = 1) -> list[float]:
        """Singular values, descending; of a kernel those of its matrix (out, in height width)."""
        with _threads(self.threads):
            found = [layers.singular_values(part) for part in matrix.detach().flatten(1).chunk(blocks)]
        return sorted((float(s) for one in found for s in one), reverse=True)


def _adam(state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps), what lr multiplies in the step that was made last."""
    (b1, b2), t = group["betas"], float(state["step"])
    root = state["exp_avg_sq"].div(1 - b2**t).sqrt_().add_(group["eps"])
    step: Tensor = state["exp_avg"].div(1 - b1**t).div_(root)
    return step


def _threads(most: int) -> Any:  # a context
    """Give numpy as many threads as the run has. It would take all cores, and its threads wait busily."""
    from threadpoolctl import threadpool_limits  # a GPU on loan may not have it, and trains without spectra

    return threadpool_limits(most, user_api="blas")
