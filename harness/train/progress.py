"""How far a run has come, over all attempts: its steps, the time that they took, the state of its rules.

The time of a step is the mean over all steps after a warm-up, with the periodic work of an optimizer. A
median would leave out work that is done every 25th step: HTMuon with interval=25 would get Muon's time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from htbench.harness.train.divergence import Divergence

clock: Callable[[], float] = time.perf_counter
cpu_clock: Callable[[], float] = time.process_time

WARM_UP = 10  # steps in which a new process allocates memory and chooses or compiles kernels
SHORT = 5  # a run shorter than SHORT warm-ups leaves out one step in SHORT


def warm_up(total: int) -> int:
    """How many first steps of each process are not counted, in a run of `total` steps."""
    return min(WARM_UP, total // SHORT)


@dataclass(frozen=True)
class Moment:
    """A point in time, by the wall and by this process's use of the CPU, in seconds."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Moment:
        """The present one."""
        return cls(clock(), cpu_clock())


@dataclass
class StepTimes:
    """The steps counted so far, over all attempts; plain values that go into the checkpoint.

    The spread is that between windows, by Welford's method, so that no list grows with the run
    (https://en.wikipedia.org/wiki/Algorithms_for_calculating_variance). A window is the steps between two
    transfers of the losses from the device.

    Attributes:
        steps: number of them.
        seconds: time that they took.
        cpu: CPU seconds that they took, of all processes of the run together.
        windows: number of windows.
        average: mean over windows of a window's seconds per step.
        squares: sum of the squared deviations from it.
        compile: seconds of the first step of every process that compiled the model, which are not counted.
    """

    steps: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    windows: int = 0
    average: float = 0.0
    squares: float = 0.0
    compile: float = 0.0

    def add(self, steps: int, seconds: float, cpu: float) -> None:
        """Count a window."""
        self.steps += steps
        self.seconds += seconds
        self.cpu += cpu
        self.windows += 1
        off = seconds / steps - self.average
        self.average += off / self.windows
        self.squares += off * (seconds / steps - self.average)

    def summary(self, warmup: int) -> dict[str, float]:
        """`RunRecord.timing`; empty if no step was counted."""
        if not self.steps:
            return {}
        spread = {"sd": math.sqrt(self.squares / (self.windows - 1))} if self.windows > 1 else {}
        counted = {"steps": self.steps, "warmup": warmup, "cpu": self.cpu / self.steps}
        compiled = {"compile": self.compile} if self.compile else {}
        return {"mean": self.seconds / self.steps, **spread, **counted, **compiled}


@dataclass
class Progress:
    """The progress of a run. It is stored in the checkpoint as plain values.

    Attributes:
        step: updates made.
        seconds: seconds spent in these updates.
        times: statistics of the time of a step; steps of the warm-up are left out.
        divergence: state of the rule that decides whether the run has diverged.
        untrained_loss: validation loss before the first update; None if the config does not ask for it.
        stack: the most runs that made an update as one, this one among them.
    """

    step: int = 0
    seconds: float = 0.0
    times: StepTimes = field(default_factory=StepTimes)
    divergence: Divergence = field(default_factory=Divergence)
    untrained_loss: float | None = None
    stack: int = 1

    @classmethod
    def of_plain(cls, value: dict[str, Any]) -> Progress:
        """Read the progress from a checkpoint's plain values.

        Raises:
            TypeError, KeyError: incompatible code has written the checkpoint.
        """
        parts = {"divergence": Divergence(**value["divergence"]), "times": StepTimes(**value["times"])}
        return cls(**{name: x for name, x in (value | parts).items() if name != "trunk"})  # of older code
