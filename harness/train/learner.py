"""What a run learns from and what learns: data, a model with its optimizer, and how a batch updates them."""

from __future__ import annotations

from pathlib import Path

import torch

import models
import optimizers
from harness.config import RunConfig
from harness.data import registry as tasks
from harness.data.task import Batch, Task
from harness.errors import UsageError
from harness.parallel.batch_norm import synchronise
from harness.parallel.group import Group
from harness.parallel.overlap import GradientSum
from harness.parallel.sharding import Shards
from harness.train import curvature, schedule
from optimizers.base import UpdateRule
from optimizers.cost import seconds_of_a_step, separable


def load_task(config: RunConfig, key: str, cache: Path) -> Task:
    """The data of a run. Raises UsageError if it is not what the config was made for."""
    if config.data_fingerprint != tasks.fingerprint(config.task):
        raise UsageError(
            f"The data of '{config.task}' has changed since run {key} was planned "
            f"(fingerprint {config.data_fingerprint}, now {tasks.fingerprint(config.task)}); "
            f"plan the sweep anew."
        )
    task = tasks.build(
        config.task,
        cache=cache,
        batch_size=config.batch_size,
        seq_len=config.seq_len,
        data_seed=config.data_seed,
        **tasks.options(config.task, config),
    )
    if config.batch_size > task.epoch_size:
        raise UsageError(
            f"batch_size={config.batch_size} is more than the {task.epoch_size} training samples "
            f"of '{config.task}'."
        )
    return task


class Learner:
    """A model and its optimizer before the first update. Equal arguments give equal numbers.

    Args:
        config: of the run.
        task: data and loss.
        total: updates of the run, for the learning rate.
        device: of the model.
        group: the processes of the run; each computes its part of every batch.
    """

    def __init__(self, config: RunConfig, task: Task, total: int, device: torch.device, group: Group) -> None:
        self.config, self.task, self.total, self.device, self.group = config, task, total, device, group
        self.micro_batch = config.micro_batch or config.batch_size

        torch.set_num_threads(config.threads)
        # For convolutions and matrix products; torch's own default is TF32 for convolutions only.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = config.precision.tf32
        torch.manual_seed(config.seed)
        self.model = models.build(config.model, **task.model_options)
        if config.sync_batch_norm:
            synchronise(self.model, group)
        self.model.to(device, getattr(torch, config.precision.params))
        self.forward: torch.nn.Module = torch.compile(self.model) if config.compile else self.model  # type: ignore[assignment]
        self.autocast = torch.autocast(
            device.type, torch.bfloat16, enabled=config.precision.autocast != "none"
        )

        rule = config.optimizer
        self.optimizer = optimizers.build(
            rule.name,
            self.model,
            lr=rule.lr,
            weight_decay=rule.weight_decay,
            routing=rule.routing,
            aux_lr=rule.aux_lr,
            **rule.hyper,
        )
        for rates in self.optimizer.param_groups:
            rates["initial_lr"] = rates["lr"]
        self.gradients = GradientSum(self.model, group, overlap=device.type == "cuda")
        divided = config.shard_optimizer and separable(self.optimizer)
        self.shards = Shards(self.optimizer, group, seconds_of_a_step if divided else None)

    @property
    def lr(self) -> float:
        """The learning rate of the latest update."""
        rate: float = self.optimizer.param_groups[0]["lr"]
        return rate

    def update(self, step: int) -> torch.Tensor:
        """Make the update of 0-based `step`.

        Returns:
            the batch's mean loss per counted target before it, on the device. Of several processes each
            returns its part of that mean, and their sum is the mean.
        """
        self._set_learning_rate(step)
        batch = self.task.batch(step, self.group)
        self._observe_curvature(batch, step)
        total = torch.zeros((), device=self.device)
        micros = batch.split(self.micro_batch)
        for number, micro in enumerate(micros, 1):
            with self.autocast:
                loss = self.task.loss(self.forward, micro.to(self.device))
            # Divided by the count of the whole batch, so that unequal micro-batches get the right weight.
            mean = loss / batch.count
            if number == len(micros):
                self.gradients.expect()
            torch.autograd.backward(mean)
            total += mean.detach()
        self.gradients.finish()
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        self.shards.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total

    def _set_learning_rate(self, step: int) -> None:
        rule = self.config.schedule
        factor = schedule.multiplier(rule.name, step, self.total, rule.warmup, rule.floor, rule.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def _observe_curvature(self, batch: Batch, step: int) -> None:
        """Make a second backward pass on the batch, before those updates for which Sophia needs it."""
        rule = self.optimizer
        if isinstance(rule, UpdateRule) and rule.wants_curvature(step):
            curvature.observe(
                rule,
                self.task,
                self.forward,
                batch,
                seed=self.config.seed,
                step=step,
                micro_batch=self.micro_batch,
                device=self.device,
                autocast=self.autocast,
                group=self.group,
                shards=self.shards,
            )

    def evaluate(self, split: str) -> dict[str, float]:
        """Metrics of a held-out split, the same in all processes."""
        self.group.broadcast_buffers(self.model)
        with self.autocast:
            return self.task.evaluate(self.forward, split, self.micro_batch, self.device, self.group)
