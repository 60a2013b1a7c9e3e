"""The batches of a run. A thread gathers the next one while a GPU works on this one."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch

from harness.data.task import Batch, Task
from harness.parallel.group import Group


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
        self.task, self.group = task, group
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches") if ahead else None
        self._next: tuple[int, Future[Batch]] | None = None

    def at(self, step: int) -> Batch:
        """The batch of 0-based `step`."""
        if self._thread is None:
            return self.task.batch(step, self.group)
        expected, self._next = self._next, None
        if expected is None or expected[0] != step:
            expected = step, self._thread.submit(self.task.batch, step, self.group)
        batch = expected[1].result()
        self._next = step + 1, self._thread.submit(self.task.batch, step + 1, self.group)
        return batch


def ahead_on(device: torch.device) -> bool:
    """Whether it pays to gather batches ahead."""
    return device.type == "cuda"
