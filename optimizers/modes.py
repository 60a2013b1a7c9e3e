"""Optimizers that train other weights than those to evaluate, and switch by `train()` and `eval()`."""

from typing import Protocol, TypeVar, runtime_checkable

from torch.optim import Optimizer

from htbench.optimizers.hybrid import Hybrid

Some = TypeVar("Some", bound=Optimizer)


@runtime_checkable
class Switching(Protocol):
    """A schedule-free class, ours or another's: what it trains is y, what it is evaluated at is x."""

    def train(self) -> object:
        """Put into the parameters what is trained."""

    def eval(self) -> object:
        """Put into the parameters what is to be evaluated."""


def switching(optimizer: Optimizer) -> list[Switching]:
    """The parts of an optimizer that switch; usually none."""
    parts = optimizer.parts if isinstance(optimizer, Hybrid) else (optimizer,)
    return [part for part in parts if isinstance(part, Switching)]


def training(optimizer: Some) -> Some:
    """The optimizer, ready for steps: those of the package `schedulefree` are made for evaluation."""
    for part in switching(optimizer):
        part.train()
    return optimizer
