"""The local pool: fresh processes per run, forked from a server that has torch loaded.

Never plain `fork`: a parent that has used threads or a GPU can't be copied safely. The server only imports.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol

from harness.errors import UsageError
from harness.parallel.group import is_main
from harness.parallel.processes import Ranks
from harness.store.points import Point
from harness.system import environment
from harness.system.environment import HOME
from harness.system.machine import usable_cores, visible_gpus
from harness.train.monitor import Monitor, signals_held_back
from sweeps.execute import execute


def default_workers() -> int:
    """The number of runs at a time: the cores by affinity and cgroup quota, at most 8."""
    return max(1, min(int(usable_cores()), 8))


class Counter(Protocol):
    """A number that two processes share."""

    value: int


@dataclass
class Worker:
    """The processes at work on one point, named by its id, and the GPUs that they share."""

    id: str
    ranks: Ranks
    counter: Counter
    gpu: str | None


class Pool:
    """At most `workers` processes at a time, spread over the GPUs if there are any.

    A run of more processes starts as soon as no other run is at work.

    Args:
        root: the store.
        workers: number of processes; None: by cores, or one per GPU.
        preload: modules that every process needs, imported once.
    """

    def __init__(self, root: Path, workers: int | None = None, preload: Sequence[str] = ()) -> None:
        gpus = visible_gpus()
        self.root = root
        self.size = workers or len(gpus) or default_workers()
        self.gpus = len(gpus)
        shares = max(self.size, len(gpus))  # a run may have a process on every GPU
        self.free_gpus = [gpus[i % len(gpus)] for i in range(shares)] if gpus else []
        self.running: dict[str, Worker] = {}
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["htbench", "sweeps.local.preload", *preload])
        os.environ[environment.CODE_VERSION_VARIABLE] = environment.code_version()
        resource_tracker.ensure_running()  # its start unblocks signals, so it is not within the next block
        with signals_held_back(), _our_code_only():  # or Ctrl-C kills the server while it imports torch
            forkserver.ensure_running()

    def has_room_for(self, processes: int) -> bool:
        """Whether another run may start."""
        busy = sum(len(worker.ranks.processes) for worker in self.running.values())
        gpus = len(set(self.free_gpus)) >= min(processes, self.gpus)  # two of a run can't share one
        return not busy or (busy + processes <= self.size and gpus)

    def start(self, point: Point, processes: int = 1) -> None:
        """Start to work on a point."""
        gpus = list(dict.fromkeys(self.free_gpus))[:processes]
        for name in gpus:
            self.free_gpus.remove(name)
        gpu = ",".join(gpus) or None
        counter: Any = self._context.RawValue("q", 0)
        ranks = Ranks(self._context, processes, _work, (self.root, point, counter, gpu))
        self.running[point.id] = Worker(point.id, ranks, counter, gpu)

    def finished(self, timeout: float) -> list[tuple[str, int]]:
        """Wait up to `timeout` seconds; ids and exit statuses (negative: a signal) of ended points."""
        wait([sentinel for worker in self.running.values() for sentinel in worker.ranks.sentinels], timeout)
        statuses = {worker.id: worker.ranks.poll() for worker in self.running.values()}
        ended = [(name, status) for name, status in statuses.items() if status is not None]
        for name, _ in ended:
            worker = self.running.pop(name)
            self.free_gpus += worker.gpu.split(",") if worker.gpu else []
        return ended

    def steps_done(self) -> int:
        """Updates made so far by the processes at work."""
        return sum(worker.counter.value for worker in self.running.values())

    def stop(self) -> None:
        """Ask every process to save and stop, and wait for them."""
        for worker in self.running.values():
            worker.ranks.signal(signal.SIGTERM)
        while self.running:
            self.finished(timeout=1.0)


@contextlib.contextmanager
def _our_code_only() -> Iterator[None]:
    """Let the server import the code that this process runs, whichever copy is installed.

    The working folder is not on its path: a file there may have the name of one of our modules.
    """
    ours = {"PYTHONSAFEPATH": "1"}  # of Python 3.11 and later
    if str(HOME) != sysconfig.get_path("purelib"):  # which is on the path anyway, behind the standard library
        ours["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HOME), os.environ.get("PYTHONPATH")]))
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(root: Path, point: Point, counter: Counter, gpu: str | None) -> None:
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu

    def progress(step: int) -> None:
        if is_main():
            counter.value = step

    sys.exit(execute(root, point, Monitor(progress), _say))


def _say(error: Exception) -> None:
    if isinstance(error, UsageError):  # all other errors are in the store
        print(f"htbench: {error}", file=sys.stderr)
