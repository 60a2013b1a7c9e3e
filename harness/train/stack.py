"""Runs of one process that make each update together: their small models are one stack.

Each run is trained by a thread of its own, with the code, the claim, the curve and the checkpoint that it has
alone. One thread works at a time. It hands its turn on where it waits for the others before an update; the
last one to come makes the update of all. So a run that ends, diverges or fails leaves the stack, and the
others go on.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from htbench.harness.data.task import IGNORED, Batch, cross_entropies, moved
from htbench.harness.data.text import TextTask, leaves_head
from htbench.harness.show.note import Note
from htbench.harness.train import precision
from htbench.harness.train.learner import Learner
from htbench.harness.train.progress import Moment
from htbench.models.stacked import StackedModel
from htbench.optimizers.base import UpdateRule
from htbench.optimizers.together import is_same, step_together

log = logging.getLogger("htbench")


class Stack:
    """The meeting point of the runs of a stack.

    Args:
        runs: how many threads will be `joined`.

    Attributes:
        members: runs that have not ended.
        turn: held by the thread that works.
        numbers: of learners, in the order in which they are made.
        learner: makes a `StackedLearner` of the arguments of `Learner`.
    """

    def __init__(self, runs: int) -> None:
        self.members = runs
        self.numbers = itertools.count()
        self.learner = functools.partial(StackedLearner, self)
        self.turn = threading.Condition()
        self._due: dict[StackedLearner, int] = {}
        self._losses: dict[StackedLearner, Tensor | Exception] = {}
        self._stacked: _Stacked | None = None
        self._can_stack = True

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Work on one of the runs inside, whenever it is this thread's turn."""
        with self.turn:
            try:
                yield
            finally:
                self.members -= 1
                self.turn.notify_all()

    def update(self, learner: StackedLearner, step: int) -> Tensor:
        """Wait until all other runs want an update, too; see `Learner.update`."""
        self._due[learner] = step
        while learner in self._due and len(self._due) < self.members:
            self.turn.wait()
        if learner in self._due:
            due, self._due = self._due, {}
            try:
                self._losses = self.update_all(due)
            except Exception as error:
                self._losses = dict.fromkeys(due, error)
            self.turn.notify_all()
        made = self._losses.pop(learner)
        if isinstance(made, Exception):
            raise made
        return made

    def update_all(self, due: dict[StackedLearner, int]) -> dict[StackedLearner, Tensor | Exception]:
        """Make these updates, of 0-based steps; return the loss of each, or why it has none."""
        began, losses = Moment.now(), dict[StackedLearner, Tensor | Exception]()
        if len(due) > 1 and self._can_stack:
            losses |= self._update_stack(due)
        for learner in due.keys() - losses.keys():
            try:
                losses[learner] = learner.update_alone(due[learner])
            except Exception as error:  # it ends this run alone, in its own thread
                losses[learner] = error
        ended = Moment.now()
        for learner in due:
            wall, cpu = (ended.wall - began.wall) / len(due), (ended.cpu - began.cpu) / len(due)
            learner.spent = Moment(learner.spent.wall + wall, learner.spent.cpu + cpu)
        return losses

    def _update_stack(self, due: dict[StackedLearner, int]) -> dict[StackedLearner, Tensor | Exception]:
        """Make the update as one stack; one that must be exact, only if it has the numbers of its runs alone.

        Returns:
            nothing if it can't be made so: then each makes its own.
        """
        learners = sorted(due, key=lambda learner: learner.number)
        if any(isinstance(x.optimizer, UpdateRule) and x.optimizer.wants_curvature(due[x]) for x in due):
            return {}
        try:
            losses = self._pass_through(learners, due)
        except Exception as error:  # maybe of one run: it is to fail alone
            log.warning("%s", Note("stack_impossible", runs=len(due), why=f"{type(error).__name__}: {error}"))
            self._stacked = None
        if self._stacked is None:
            self._can_stack = False
            for learner in learners:
                learner.optimizer.zero_grad(set_to_none=True)
            return {}
        return losses | self._stacked.step(learners)

    def _pass_through(
        self, learners: list[StackedLearner], due: dict[StackedLearner, int]
    ) -> dict[StackedLearner, Tensor | Exception]:
        """Leave the gradients of all runs in their models, if they can be a stack; return the losses."""
        for learner in learners:
            learner.follow_schedules(due[learner])
        batches = {learner: learner.batches.at(due[learner]) for learner in learners}
        if self._stacked is None or not self._stacked.serves(learners):
            if learners[0].config.compile and not _can_join_losses(learners[0]):
                return {}  # each run has compiled its loss
            self._stacked = _Stacked(learners)
            if self._stacked.must_be_exact and not self._stacked.is_exact(batches):
                log.warning("%s", Note("stack_not_exact", runs=len(learners)))
                self._stacked = None
                return {}
        return self._stacked.pass_through(batches)


class StackedLearner(Learner):
    """A model and its optimizer that are updated with those of other runs."""

    def __init__(self, stack: Stack, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stack, self.number = stack, next(stack.numbers)
        self.spent = Moment(0.0, 0.0)

    def update(self, step: int) -> Tensor:
        """Make the update of 0-based `step` together with the other runs; see `Learner.update`."""
        return self.stack.update(self, step)

    def update_alone(self, step: int) -> Tensor:
        """Make it without them."""
        return super().update(step)

    def now(self) -> Moment:
        """The time of this run's updates so far: of those of a stack its equal share."""
        return self.spent

    def take_gradients(self) -> list[Tensor]:
        """The gradients in the model, which then has none."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        self.optimizer.zero_grad(set_to_none=True)
        return gradients


class _Stacked:
    """The models of some learners as one.

    On a CPU it has the numbers of its runs alone, bit for bit. Where it can't promise that, which is on a GPU
    and compiled, losses and lengths of gradients are those of all runs in one operation, too, where
    `_can_join_losses`.
    """

    def __init__(self, learners: list[StackedLearner]) -> None:
        first = learners[0]
        self.learners, self.compiles = learners, first.config.compile
        self.must_be_exact = first.device.type == "cpu" and not self.compiles
        self.joins_losses = not self.must_be_exact and _can_join_losses(first)
        self.models = [learner.model for learner in learners]
        self.model = StackedModel(self.models, joins_heads=self.joins_losses)
        self.joint_losses = torch.compile(_joint_losses) if self.compiles else _joint_losses
        self.shares_rule, self.steps = True, 0

    def serves(self, learners: list[StackedLearner]) -> bool:
        """Whether these can be updated.

        Another size has to be compiled, so in a compiled stack half of the places may be empty.
        """
        if self.compiles:
            return 2 * len(learners) >= len(self.learners) and set(learners) <= set(self.learners)
        return learners == self.learners

    def step(self, learners: list[StackedLearner]) -> dict[StackedLearner, Exception]:
        """Update the models of these by the gradients in them; return why some could not be."""
        errors: dict[StackedLearner, Exception] = {}
        is_shared = bool(self.steps and self.shares_rule)
        for learner in learners:
            try:
                if not self.joins_losses:
                    learner.clip_gradients()
                if not is_shared:
                    learner.shards.step()
            except Exception as error:  # it ends this run alone, in its own thread
                errors[learner] = error
        moving = [learner for learner in learners if learner not in errors]
        if is_shared and moving:
            # After a first step there are states to compare.
            compare = self.steps == 1 and self.must_be_exact
            try:
                self.shares_rule = step_together([x.optimizer for x in moving], compare=compare)
            except Exception:
                # Nobody knows what has moved. As after any death each goes on from its checkpoint.
                log.exception("%s", Note("stack_torn", runs=len(moving)))
                os.kill(os.getpid(), signal.SIGKILL)
        for learner in moving:
            learner.drop_gradients()
            learner.largest_stack = max(learner.largest_stack, len(learners))
        self.steps += 1
        return errors

    def pass_through(
        self, batches: Mapping[StackedLearner, Batch]
    ) -> dict[StackedLearner, Tensor | Exception]:
        """Leave the gradients of each learner's batch in its model; return the mean losses, on the device."""
        first, spare = self.learners[0], next(iter(batches.values()))
        parts = [batches.get(learner, spare) for learner in self.learners]  # a place may be empty
        inputs = torch.cat([part.inputs for part in parts])
        with precision.of_the_model(first.config.precision):
            with first.autocast:
                if self.joins_losses:
                    targets = torch.cat([part.targets for part in parts])
                    batch = Batch.of(inputs, targets).to(first.device)
                    losses = self.joint_losses(first.task.logits, self.model.module, batch, len(parts))
                else:
                    losses = self._losses(moved(inputs, first.device), parts)
            torch.autograd.backward(losses.sum())
        if self.joins_losses and first.config.grad_clip is not None:
            _clip_each([weight.grad for weight, _ in self.model.weights], first.config.grad_clip)
        self.model.give_gradients()
        means = zip(self.learners, losses.detach().unbind(), strict=True)
        return {learner: loss for learner, loss in means if learner in batches}

    def _losses(self, inputs: Tensor, parts: Sequence[Batch]) -> Tensor:
        """The mean loss of each learner, (K,), as it makes that alone."""

        @functools.cache  # the first loss asks for it, and says with or without the head
        def outputs(**head: bool) -> Sequence[Tensor]:
            out = self.model.module(inputs, **head)
            return out.chunk(len(parts)) if isinstance(out, Tensor) else out

        return torch.stack(
            [
                learner.task.loss(_Part(learner.model, outputs, number), part.to(inputs.device)) / part.count
                for number, (learner, part) in enumerate(zip(self.learners, parts, strict=True))
            ]
        )

    def is_exact(self, batches: Mapping[StackedLearner, Batch]) -> bool:
        """Whether losses and gradients of a batch are, bit for bit, those of each model alone."""
        for learner, loss in self.pass_through(batches).items():
            assert isinstance(loss, Tensor)
            stacked = [loss, *learner.take_gradients()]
            with precision.of_the_model(learner.config.precision):
                alone = [learner.pass_through(batches[learner]), *learner.take_gradients()]
            if len(stacked) != len(alone) or not all(map(is_same, stacked, alone)):
                return False
        return True


def _can_join_losses(learner: Learner) -> bool:
    """Whether the loss of a run is nothing but the cross-entropy of logits that are held whole."""
    task = type(learner.task)
    return issubclass(task, TextTask) and task.loss is TextTask.loss and not leaves_head(learner.model)


def _joint_losses(
    logits_of: Callable[[nn.Module, Batch], Tensor], model: nn.Module, batch: Batch, runs: int
) -> Tensor:
    """The mean loss of each of so many runs, (K,), whose samples stand one after the other in the batch."""
    losses = cross_entropies(logits_of(model, batch), batch.targets.flatten())
    counted = (batch.targets != IGNORED).view(runs, -1).sum(1)
    return losses.view(runs, -1).sum(1) / counted


@torch.no_grad()
def _clip_each(gradients: Sequence[Tensor | None], limit: float) -> None:
    """Make the gradients of each model, parts of these stacks (K, ...), no longer than the limit together.

    It is what `torch.nn.utils.clip_grad_norm_` does for one model.
    """
    stacks = [gradient for gradient in gradients if gradient is not None]
    lengths = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in stacks])
    factors = (limit / (torch.linalg.vector_norm(lengths, dim=0) + 1e-6)).clamp_(max=1)
    for gradient in stacks:
        gradient.mul_(factors.view(-1, *(1 for _ in gradient.shape[1:])))


class _Part(nn.Module):
    """One model of a stack, as a loss calls it: what it answers has been computed for all of them."""

    def __init__(self, model: nn.Module, outputs: Callable[..., Sequence[Tensor]], number: int) -> None:
        super().__init__()
        self.splits_head = getattr(model, "splits_head", False)
        self.get_output_embeddings = model.get_output_embeddings
        self._outputs, self._number = outputs, number

    def forward(self, inputs: Tensor, **head: bool) -> Tensor:
        """The output for the inputs, which are those of the stack."""
        return self._outputs(**head)[self._number]
