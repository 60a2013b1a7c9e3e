"""A model with its optimizer, and how a batch updates them. A thread gathers the next one for a GPU."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from htbench.harness.config.key import ResolvedRun
from htbench.harness.data.task import Batch, Scores, Task
from htbench.harness.errors import PeerLostError
from htbench.harness.parallel import device
from htbench.harness.parallel.group import ALONE, Group
from htbench.harness.parallel.overlap import GradientSum
from htbench.harness.parallel.sharding import Shards
from htbench.harness.system import machine
from htbench.harness.train import building, curvature, precision, schedule, unfit
from htbench.harness.train.building import build_model, build_optimizer, rate_schedules, scheduled_groups
from htbench.harness.train.progress import Moment
from htbench.optimizers.base import UpdateRule
from htbench.optimizers.cost import seconds_of_a_step, separable
from htbench.optimizers.modes import switching

log = logging.getLogger("htbench")

T = TypeVar("T")

_STATISTICS = 50  # batches
EARLY = 2  # updates after which memory holds all that a run needs: the optimizer's state comes with the first


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
        halved: whether it is less than what the config asks for, since the device lacked memory.
        largest_stack: the most runs that made an update together with this one, as one stack.
    """

    largest_stack = 1

    def __init__(
        self, run: ResolvedRun, task: Task, total: int, device: torch.device, group: Group = ALONE
    ) -> None:
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
        if device.type == "cpu":
            machine.keep_memory()
        torch.backends.cudnn.benchmark = device.type == "cuda"  # where a run need not repeat bit for bit
        precision.exact()
        self.model = build_model(config, task, device, group)
        self.loss = torch.compile(task.loss) if config.compile else task.loss
        self.autocast = torch.autocast(
            device.type, torch.bfloat16, enabled=config.precision.autocast != "none"
        )
        self.parameters = list(self.model.parameters())
        self.optimizer = build_optimizer(config, self.model)
        self._rates = rate_schedules(config)
        self._scheduled = scheduled_groups(config, self.optimizer, run.optimizer.has_aux)
        self.gradients = GradientSum(self.model, group, overlap=device.type == "cuda")
        divided = config.shard_optimizer and separable(self.optimizer)
        self.shards = Shards(self.optimizer, group, seconds_of_a_step if divided else None)
        self._updates = 0  # made by this process

    @property
    def lr(self) -> float:
        """The learning rate of the latest update."""
        return float(self.optimizer.param_groups[0]["lr"])

    def now(self) -> Moment:
        """The present moment, to measure the time of updates."""
        return Moment.now()

    def update(self, step: int) -> torch.Tensor:
        """Make the update of 0-based `step`.

        Returns:
            the batch's mean loss per counted target before it, on the device. Of several processes each
            returns its part of that mean, and their sum is the mean.
        """
        self.follow_schedules(step)
        batch, rule = self.batches.at(step), self.optimizer
        with precision.of_the_model(self.config.precision):
            if isinstance(rule, UpdateRule) and rule.wants_curvature(step):
                self._fitting(self._curvature, batch, step)
                self.shards.drop_gradients()
                rule.observe_curvature(batch.count)
                rule.zero_grad(set_to_none=True)
            loss = self._fitting(self.pass_through, batch, step)
        self.apply_gradients()
        return loss

    def apply_gradients(self) -> None:
        """Clip the gradients in the parameters, step the optimizer, and drop them."""
        try:
            self.clip_gradients()
            self.shards.step()
        except (torch.OutOfMemoryError, PeerLostError):
            raise
        except Exception as error:  # a class from outside may raise anything
            if self._updates:
                raise
            raise unfit.explained(self.config, self.model, building.plain_optimizer, error) from None
        self.drop_gradients()

    def clip_gradients(self) -> None:
        """Make the gradients shorter where the config asks for it."""
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip)

    def drop_gradients(self) -> None:
        """Count the update that has been made with the gradients, and drop them."""
        self.optimizer.zero_grad(set_to_none=True)
        self._updates += 1

    def _fitting(self, passes: Callable[[Batch, int], T], batch: Batch, step: int) -> T:
        """Make the passes of a batch, with smaller micro-batches where memory lacks; gradients are their sum.

        Args:
            passes: leaves the gradients of this process's part in the parameters.
            batch, step: its arguments.

        Raises:
            OutOfMemoryError: memory lacks, and there is no smaller micro-batch (of one sample), it is another
                run (of BatchNorm), or the processes don't know of each other: they tell in their first
                updates, where it shows.
        """
        agreed = self.group.size > 1 and self._updates < EARLY
        while True:
            lacking = None
            if self.config.dropout:
                torch.manual_seed(stream(self.config.seed, step, self.group.rank))
            try:
                made = passes(batch, step)
            except torch.OutOfMemoryError as error:
                lacking = error.with_traceback(None)  # which would keep activations alive
            self.gradients.finish()
            if agreed and self.group.any([lacking is not None])[0]:
                lacking = lacking or torch.OutOfMemoryError("another process lacks memory")
            if lacking is None:
                return made
            part = min(self.micro_batch, len(batch.inputs))
            if part < 2 or self.batch_norm or not (agreed or self.group.size == 1):
                raise lacking
            self.micro_batch, self.halved = (part + 1) // 2, True
            log.warning("step %d: %s; going on with micro_batch=%d", step + 1, lacking, self.micro_batch)
            self.optimizer.zero_grad(set_to_none=True)
            device.forget(self.device)

    def _curvature(self, batch: Batch, step: int) -> None:
        """Sophia's second backward pass."""
        curvature.backward(
            self.task,
            self.model,
            batch,
            seed=self.config.seed,
            step=step,
            micro_batch=self.micro_batch,
            device=self.device,
            autocast=self.autocast,
            group=self.group,
        )

    def pass_through(self, batch: Batch, step: int = 0) -> torch.Tensor:
        """Add the gradients of all micro-batches up; return this process's part of the batch's mean loss."""
        total = torch.zeros((), device=self.device)
        micros = batch.split(self.micro_batch)
        for number, micro in enumerate(micros, 1):
            with self.autocast:
                loss = self.loss(self.model, micro.to(self.device))
            # Divided by the count of the whole batch, so that unequal micro-batches get the right weight.
            mean = loss / batch.count
            if number == len(micros):
                self.gradients.expect()
            torch.autograd.backward(mean)
            total += mean.detach()
        return total

    def follow_schedules(self, step: int) -> None:
        """Set the learning rate, and the hyperparameters that have a schedule."""
        factors = {name: schedule.multiplier(rule, step, self.total) for name, rule in self._rates.items()}
        for group in self.optimizer.param_groups:
            _put(group, "lr", group["initial_lr"] * factors[group.get("group")])
        for name, numbers in self._scheduled.items():
            value = schedule.value(self.config.schedule.hyper[name], step, self.total)
            for number in numbers:
                _put(self.optimizer.param_groups[number], name, value)

    def evaluate(self, split: str) -> Scores | dict[str, float]:
        """Metrics of a held-out split, with its items if the task tells them; the same in all processes."""
        with self.evaluated():
            self.group.broadcast_buffers(self.model)
            made: Callable[..., Scores | dict[str, float]] = getattr(self.task, "score", self.task.evaluate)
            with precision.of_the_model(self.config.precision), self.autocast:
                return made(self.model, split, self.micro_batch, self.device, self.group)

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Meanwhile the model has the weights to evaluate, measure and keep; all processes together.

        They are those that are trained, but for optimizers that switch (`optimizers/modes.py`). Going back
        such a class rounds; so the weights before are kept, and evaluations change no numbers of the run.
        """
        parts = switching(self.optimizer)
        if not parts:
            yield
            return
        tensors = [*self.model.parameters(), *self.model.buffers()]
        trained = [x.detach().clone() for x in tensors]
        for part in parts:
            part.eval()
        self.shards.share()
        if self.batch_norm:
            self._take_statistics()
        try:
            yield
        finally:
            for part in parts:
                part.train()
            _copy(trained, tensors)

    @torch.no_grad()
    def _take_statistics(self) -> None:
        """Give BatchNorm the mean statistics of the first batches at the weights that the model has now.

        Those of training are of other weights. The README of https://github.com/facebookresearch/schedule_free
        asks for such passes, over 50 batches. They change nothing else, the random state included, and do not
        depend on the length of the run.
        """
        batches = (self.task.batch(step, self.group) for step in range(_STATISTICS))
        inputs = (m.to(self.device).inputs for batch in batches for m in batch.split(self.micro_batch))
        alone = torch.random.fork_rng([self.device] if self.device.type == "cuda" else [])
        with precision.of_the_model(self.config.precision), self.autocast, alone:
            torch.manual_seed(self.config.seed)
            torch.optim.swa_utils.update_bn(inputs, self.model)

    def kept(self) -> dict[str, Any]:
        """What a checkpoint has besides weights and optimizer; all processes together."""
        if not switching(self.optimizer):
            return {}
        with self.evaluated():
            weights = {name: x.to("cpu", copy=True) for name, x in self.model.state_dict().items()}
        return {"evaluated": weights}


def _put(group: dict[str, Any], name: str, value: Any) -> None:
    """Set a hyperparameter; a tensor in place, as torch's schedulers do: a compiled step reads it there."""
    if isinstance(group[name], torch.Tensor):
        group[name].fill_(value)
    else:
        group[name] = value


@torch.no_grad()
def _copy(values: Iterable[torch.Tensor], into: Iterable[torch.Tensor]) -> None:
    torch._foreach_copy_(list(into), list(values))


def stream(seed: int, step: int, rank: int) -> int:
    """The seed of what a process drops in a step: the same after a resume, another one in each process."""
    return int.from_bytes(hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()[:7])
