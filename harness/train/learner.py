"""A model with its optimizer, and how a batch updates them. A thread gathers the next one for a GPU."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from harness.config.key import ResolvedRun
from harness.data.task import Batch, Scores, Task
from harness.parallel.group import Group
from harness.parallel.overlap import GradientSum
from harness.parallel.sharding import Shards
from harness.train import curvature, schedule
from harness.train.building import build_model, build_optimizer, scheduled_groups
from optimizers.base import UpdateRule
from optimizers.cost import seconds_of_a_step, separable

log = logging.getLogger("htbench")

EARLY = 2  # updates after which memory holds all that a run needs: the optimizer's state comes with the first


class AgreedOutOfMemoryError(torch.OutOfMemoryError):
    """Memory lacks in some process of the run, and all of them know: they can try again together."""


class Batches:
    """The batch of a step, on the CPU.

    Since a batch is a pure function of (data_seed, step), the next one can be made ahead, and no state of a
    loader has to be saved.

    Args:
        task: makes the batches.
        group: the processes of the run.
        ahead: gather the next batch in a thread. On a CPU this would take its time from the step.
    """

    def __init__(self, task: Task, group: Group, *, ahead: bool) -> None:
        self.task = task
        self.group = group
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches") if ahead else None
        self._next: tuple[int, Future[Batch]] | None = None

    def at(self, step: int) -> Batch:
        """The batch of 0-based `step`."""
        if self._thread is None:
            return self.task.batch(step, self.group)
        expected, self._next = self._next, None
        if expected is None or expected[0] != step:
            expected = step, self._thread.submit(self._gather, step)
        batch = expected[1].result()
        self._next = step + 1, self._thread.submit(self._gather, step + 1)
        return batch

    def _gather(self, step: int) -> Batch:
        batch = self.task.batch(step, self.group)
        return batch.pinned() if torch.cuda.is_available() else batch


class Learner:
    """A model and its optimizer before the first update. Equal arguments give equal numbers.

    Args:
        run: its config and its rows.
        task: data and loss.
        total: updates of the run, for the learning rate.
        device: of the model.
        group: the processes of the run; each computes its part of every batch.

    Attributes:
        micro_batch: most samples of a backward pass.
        halved: whether it is half of what the config asks for, since the device lacked memory.
    """

    def __init__(self, run: ResolvedRun, task: Task, total: int, device: torch.device, group: Group) -> None:
        config = self.config = run.config
        self.batch_norm = run.model.batch_norm
        self.task = task
        self.total = total
        self.device = device
        self.group = group
        self.micro_batch = config.micro_batch or config.batch_size
        self.halved = False
        self.batches = Batches(task, group, ahead=device.type == "cuda")

        torch.set_num_threads(config.threads)
        torch.backends.cudnn.benchmark = device.type == "cuda"  # where a run need not repeat bit for bit
        # For convolutions and matrix products; torch's own default is TF32 for convolutions only.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = config.precision.tf32
        self.model = build_model(config, task, device, group)
        self.forward: torch.nn.Module = torch.compile(self.model) if config.compile else self.model  # type: ignore[assignment]
        self.autocast = torch.autocast(
            device.type, torch.bfloat16, enabled=config.precision.autocast != "none"
        )
        self.optimizer = build_optimizer(config, self.model)
        self._scheduled = scheduled_groups(config, self.optimizer, run.optimizer.has_aux)
        self.gradients = GradientSum(self.model, group, overlap=device.type == "cuda")
        divided = config.shard_optimizer and separable(self.optimizer)
        self.shards = Shards(self.optimizer, group, seconds_of_a_step if divided else None)
        self._updates = 0  # made by this process

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
        self._follow_schedules(step)
        batch = self.batches.at(step)
        try:
            loss = self._backward(batch, step)
        except torch.OutOfMemoryError as error:
            known = self.group.size == 1 or isinstance(error, AgreedOutOfMemoryError)
            part = min(self.micro_batch, len(batch.inputs))
            if not known or self.halved or part < 2 or self.batch_norm:  # whose statistics it would change
                raise
            self.micro_batch, self.halved = (part + 1) // 2, True
            log.warning("step %d: %s; going on with micro_batch=%d", step + 1, error, self.micro_batch)
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._backward(batch, step)
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        self.shards.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._updates += 1
        return loss

    def _backward(self, batch: Batch, step: int) -> torch.Tensor:
        """Leave the gradient of the batch's mean loss in the parameters; return this process's part of it.

        Raises:
            AgreedOutOfMemoryError: memory lacks in some process, and all know. They tell each other in their
                first updates, where it shows.
            OutOfMemoryError: memory lacks here. Of several processes the others do not know.
        """
        if self.config.dropout:
            torch.manual_seed(stream(self.config.seed, step, self.group.rank))
        rule = self.optimizer
        if isinstance(rule, UpdateRule) and rule.wants_curvature(step):  # Sophia's second backward pass
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
        lacking, loss = None, torch.zeros((), device=self.device)
        try:
            self._accumulate(batch, loss)
        except torch.OutOfMemoryError as error:
            lacking = error.with_traceback(None)  # which would keep activations alive
        self.gradients.finish()
        together = self.group.size > 1 and self._updates < EARLY
        if together and any(self.group.any([lacking is not None])):
            raise AgreedOutOfMemoryError(str(lacking or "another process lacks memory"))
        if lacking is not None:
            raise lacking
        return loss

    def _accumulate(self, batch: Batch, total: torch.Tensor) -> None:
        """Add the gradients of all micro-batches up, and their losses in `total`."""
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

    def _follow_schedules(self, step: int) -> None:
        """Set the learning rate, and the hyperparameters that have a schedule."""
        rule = self.config.schedule
        factor = schedule.multiplier(rule.name, step, self.total, rule.warmup, rule.floor, rule.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        for name, numbers in self._scheduled.items():
            value = schedule.value(rule.hyper[name], step, self.total)
            for number in numbers:
                self.optimizer.param_groups[number][name] = value

    def evaluate(self, split: str) -> Scores | dict[str, float]:
        """Metrics of a held-out split, with its items if the task tells them; the same in all processes."""
        self.group.broadcast_buffers(self.model)
        made: Callable[..., Scores | dict[str, float]] = getattr(self.task, "score", self.task.evaluate)
        with self.autocast:
            return made(self.forward, split, self.micro_batch, self.device, self.group)


def stream(seed: int, step: int, rank: int) -> int:
    """The seed of what a process drops in a step: the same after a resume, another one in each process."""
    return int.from_bytes(hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()[:7])
