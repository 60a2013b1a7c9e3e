"""The local pool: each run gets new processes, forked from a server process that has imported torch.

The start method is `forkserver`, not `fork`: it is not safe to fork a process that has used threads or a GPU.
The server only imports modules.
"""

import collections
import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from htbench.harness.errors import RunFailedError, UsageError
from htbench.harness.parallel.joining import is_main
from htbench.harness.parallel.processes import Ranks
from htbench.harness.show.emit import say
from htbench.harness.show.note import Note
from htbench.harness.store.points import Point
from htbench.harness.system import environment, streams
from htbench.harness.system.environment import our_code_only
from htbench.harness.system.machine import default_workers, gpu_variable, visible_gpus
from htbench.harness.train.monitor import Monitor, signals_held_back
from htbench.sweeps.run.execute import execute, execute_together

PRELOAD = "htbench.sweeps.run.preload"  # what a training process needs
SERVER_KILLED = 255  # what multiprocessing says of all processes of a server that is gone
SERVERS = 3  # that may be killed one after the other while one run starts


@dataclass
class Worker:
    """The processes that train the run of one point, or the one that trains those of several as a stack.

    Attributes:
        ids: of the points.
        ranks: the processes.
        counter: its `value`, in shared memory, is the updates made so far.
        gpu: their GPUs, as `gpu_variable` names them; None: no GPU is assigned.
    """

    ids: list[str]
    ranks: Ranks
    counter: Any
    gpu: str | None


class Pool:
    """Runs at most `workers` processes at a time, distributed over the GPUs if there are any.

    A run that needs more than `workers` processes starts when no other run is active.

    Args:
        root: the store.
        workers: number of processes; None: `per_gpu` on each GPU, or `default_workers()` without a GPU.
        preload: modules that the server imports before it forks.
        on_cpu: whether all runs ask for the CPU; GPUs neither limit their number nor are given to them.
        per_gpu: how many processes share a GPU, unless `workers` makes them more or fewer.
    """

    def __init__(
        self,
        root: Path,
        workers: int | None = None,
        preload: Sequence[str] = (PRELOAD,),
        on_cpu: bool = False,
        per_gpu: int = 1,
    ) -> None:
        gpus = [] if on_cpu else visible_gpus()
        self.root = root
        self.size = workers or len(gpus) * per_gpu or default_workers()
        self.gpus = len(gpus)
        shares = max(self.size, len(gpus))  # one run may need a process on each GPU
        self.free_gpus = [gpus[i % len(gpus)] for i in range(shares)] if gpus else []
        self.running: dict[str, Worker] = {}
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["htbench", *preload])
        os.environ[environment.CODE_VERSION_VARIABLE] = environment.code_version()
        with our_code_only(), signals_held_back():  # else Ctrl-C would kill the server during its imports
            forkserver.ensure_running()

    def has_room_for(self, processes: int) -> bool:
        """Whether a run of so many processes may start now."""
        busy = sum(len(worker.ranks.processes) for worker in self.running.values())
        gpus = len(set(self.free_gpus)) >= min(processes, self.gpus)  # a run needs distinct GPUs
        return not busy or (busy + processes <= self.size and gpus)

    def start(self, points: Sequence[Point]) -> None:
        """Start the processes of a point, or one for several, on the least busy GPUs, if there are any.

        Args:
            points: `has_room_for` must have allowed the first.

        Raises:
            RunFailedError: each server that was to start them was killed.
        """
        gpus = [name for name, _ in collections.Counter(self.free_gpus).most_common(points[0].processes)]
        for name in gpus:
            self.free_gpus.remove(name)
        gpu = ",".join(gpus) or None
        counter = self._context.RawValue("q", 0)
        words = (self.root, points, counter, gpu)
        ids = [point.id for point in points]
        self.running[ids[0]] = Worker(ids, self._start(points[0].processes, words), counter, gpu)

    def _start(self, processes: int, words: tuple[Any, ...]) -> Ranks:
        """Start the processes of a run; where the server was killed, by a new one."""
        for before in range(SERVERS):
            if before:
                say(Note("server_killed"))
                time.sleep(0.1)  # its files are closed a moment before it counts as dead
            with our_code_only(), signals_held_back(), contextlib.suppress(EOFError, ConnectionError):
                return Ranks(self._context, processes, _work, words)
        raise RunFailedError(str(Note("servers_killed", number=SERVERS)))

    def finished(self, timeout: float) -> list[tuple[str, int]]:
        """Wait up to `timeout` seconds; return (id, exit status) of ended points; a signal is negative.

        Without the server nobody tells how its processes end. They count as killed, and those that live
        notice that nobody waits for them, save and end.
        """
        wait([sentinel for worker in self.running.values() for sentinel in worker.ranks.sentinels], timeout)
        statuses = {name: worker.ranks.poll() for name, worker in self.running.items()}
        ended = []
        for name, status in statuses.items():
            if status is not None:
                worker = self.running.pop(name)
                self.free_gpus += worker.gpu.split(",") if worker.gpu else []
                ended += [(one, -signal.SIGKILL if status == SERVER_KILLED else status) for one in worker.ids]
        return ended

    def steps_done(self) -> int:
        """The updates that all active runs have made so far, in total."""
        return sum(worker.counter.value for worker in self.running.values())

    def stop(self) -> None:
        """Send SIGTERM, on which each process saves and stops; wait until all have ended."""
        for worker in self.running.values():
            worker.ranks.signal(signal.SIGTERM)
        while self.running:
            self.finished(timeout=1.0)


def _work(root: Path, points: Sequence[Point], counter: Any, gpu: str | None) -> None:
    streams.settle()
    if gpu is not None:
        os.environ[gpu_variable()] = gpu
    steps = [0] * len(points)

    def progress(number: int, step: int) -> None:
        steps[number] = step
        if is_main():
            counter.value = sum(steps)

    monitors = [Monitor(partial(progress, number)) for number in range(len(points))]
    if len(points) == 1:
        sys.exit(execute(root, points[0], monitors[0], _print_usage_error))
    sys.exit(execute_together(root, points, monitors, _print_usage_error))


def _print_usage_error(error: Exception) -> None:
    if isinstance(error, UsageError):  # all other errors are in the store
        say(error)
