"""Two optimizers that step alternately, so that changes of the machine's speed cancel from their ratio."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

Clock: TypeAlias = Callable[[], float]  # seconds
Two: TypeAlias = "tuple[float, float]"  # of two consecutive steps

DROPPED = 1  # rounds that warm up: first steps allocate and, in some optimizers, do something else


class Steps(Protocol):
    """What can be timed."""

    def step(self, clock: Clock) -> float:
        """Make a step; return how long it took."""


class Side:
    """One optimizer with parameters of its own and gradients that change from step to step.

    Args:
        optimizer: steps `params`.
        params: by name.
        gradients: sets of gradients by name, taken in turns. Every step gets copies, made outside of its
            time, because some optimizers overwrite gradients, keep them or set them to None.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        params: Mapping[str, nn.Parameter],
        gradients: Sequence[Mapping[str, Tensor]],
    ) -> None:
        self.optimizer, self.params = optimizer, params
        self._sets = itertools.cycle(gradients)

    def load(self) -> None:
        """Give every parameter its next gradient."""
        gradients = next(self._sets)
        for name, p in self.params.items():
            p.grad = gradients[name].clone()

    def step(self, clock: Clock) -> float:
        """Make a step; return how long it took."""
        self.load()
        began = clock()
        self.optimizer.step()
        return clock() - began


def take_turns(
    ours: Steps,
    theirs: Steps,
    rounds: int,
    clock: Clock,
    *,
    limit: float = math.inf,
    after_round: Callable[[], None] = lambda: None,
) -> tuple[list[Two], list[Two]]:
    """Times of both sides, two steps each per round in the order ours, theirs, theirs, ours.

    Args:
        ours, theirs: the sides.
        rounds: how many; `DROPPED` more are made before and not counted.
        clock: seconds.
        limit: no round begins after so many seconds, as long as there is one that counts.
        after_round: called after every round.
    """
    our_times: list[Two] = []
    their_times: list[Two] = []
    began = clock()
    for done in range(DROPPED + rounds):
        if done > DROPPED and clock() - began > limit:
            break
        first = ours.step(clock)
        their_times.append((theirs.step(clock), theirs.step(clock)))
        our_times.append((first, ours.step(clock)))
        after_round()
    return our_times[DROPPED:], their_times[DROPPED:]


def special_step(times: Sequence[Two], special: int | None) -> int:
    """The index of the full step: `special` if it is given, else the slower of the two."""
    if special is not None:
        return special
    first, second = (statistics.fmean(column) for column in zip(*times, strict=True))
    return int(second > first)


def per_step(times: Sequence[Two], period: int, special: int) -> list[float]:
    """The mean step of each round.

    With period 1 the mean of both steps. Otherwise one of the two, `special`, stands for what happens in one
    of `period` steps, and the mean is that of a whole period, which is what a user pays.
    """
    share = 1 / period if period > 1 else 0.5
    return [share * two[special] + (1 - share) * two[1 - special] for two in times]
