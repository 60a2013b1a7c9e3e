"""Two sides that step in turns, so that changes of the machine's speed cancel from their ratio.

The median of the ratios stands with its interval, the same in every benchmark. Without torch at import.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Clock = Callable[[], float]  # seconds
Two: TypeAlias = "tuple[float, float]"  # of two consecutive steps

DROPPED = 1  # rounds that warm up: first steps allocate and, in some optimizers, do something else


class Steps(Protocol):
    """What can be timed."""

    def step(self, clock: Clock) -> float:
        """Make a step; return how long it took."""


def take_turns(
    ours: Steps,
    theirs: Steps,
    rounds: int,
    clock: Clock,
    *,
    limit: float = math.inf,
) -> tuple[list[Two], list[Two]]:
    """Times of both sides, two steps each per round in the order ours, theirs, theirs, ours.

    Args:
        ours, theirs: the sides.
        rounds: how many; `DROPPED` more are made before and not counted.
        clock: seconds.
        limit: no round begins after so many seconds, as long as there is one that counts.
    """
    our_times: list[Two] = []
    their_times: list[Two] = []
    began = clock()
    for number in range(DROPPED + rounds):
        if number > DROPPED and clock() - began > limit:
            break
        first = ours.step(clock)
        their_times.append((theirs.step(clock), theirs.step(clock)))
        our_times.append((first, ours.step(clock)))
    return our_times[DROPPED:], their_times[DROPPED:]


def find_full_step(times: Sequence[Two]) -> int:
    """The index of the slower one of two consecutive steps."""
    first, second = (statistics.fmean(column) for column in zip(*times, strict=True))
    return int(second > first)


def per_step(times: Sequence[Two], period: int) -> list[float]:
    """The mean step of each round.

    With period 1 the mean of both steps. Otherwise the slower of the two stands for what happens in one of
    `period` steps, and the mean is that of a whole period, which is what a user pays.
    """
    share, full = 1 / period if period > 1 else 0.5, find_full_step(times)
    return [share * two[full] + (1 - share) * two[1 - full] for two in times]


def clock_of(device: str, threads: int) -> tuple[str, Clock]:
    """The clock to measure with and its name.

    CPU time for one thread, since other programs may use the machine; else the wall clock, on a GPU after
    `torch.cuda.synchronize`.
    """
    if device == "cuda":
        return "wall clock", _after_gpu
    return ("CPU time", time.process_time) if threads == 1 else ("wall clock", time.perf_counter)


def _after_gpu() -> float:
    sys.modules["torch"].cuda.synchronize()
    return time.perf_counter()


@dataclass(frozen=True)
class Measurement:
    """What was measured, in a unit.

    Attributes:
        name: what was measured.
        unit: in which unit.
        n: number of values.
        median: of the values.
        low, high: the 95 % interval of the median.
        target: the most that it may be.
    """

    name: str
    unit: str
    n: int
    median: float
    low: float
    high: float
    target: float | None = None

    @classmethod
    def of(cls, name: str, unit: str, values: Iterable[float], target: float | None = None) -> Measurement:
        """The median of `values`, with the interval that order statistics give whatever the distribution.

        From the (k+1)-th smallest to the (k+1)-th greatest value: that misses the true median if a fair coin
        thrown n times shows at most k heads or at most k tails. Below six values it is the range and covers
        less.
        """
        ordered = sorted(map(float, values))  # plain ones, also of arrays
        n = len(ordered)
        tails = itertools.accumulate(math.comb(n, k) / 2**n for k in range(n))
        k = max(0, sum(tail <= 0.025 for tail in tails) - 1)
        return cls(name, unit, n, statistics.median(ordered), ordered[k], ordered[n - 1 - k], target)

    @classmethod
    def ratio(
        cls, name: str, unit: str, a: Iterable[float], b: Iterable[float], target: float | None = None
    ) -> Measurement:
        """Of a / b in each round."""
        return cls.of(name, unit, [x / y for x, y in zip(a, b, strict=True)], target)

    @property
    def is_met(self) -> bool:
        """Whether the interval's lower end is below the target, if there is one."""
        return self.target is None or self.low <= self.target
