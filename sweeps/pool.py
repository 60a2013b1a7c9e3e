"""The local pool: a fresh process per run, forked from a server that has torch loaded.

Never plain `fork`: a parent that has used threads or a GPU can't be copied safely. The server only imports.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from harness import environment
from harness.config import Value
from harness.machine import ask, usable_cores
from harness.monitor import STOP_SIGNALS
from sweeps.execute import Counter, execute


def default_workers() -> int:
    """How many runs at a time: the cores this process may use, by affinity and cgroup quota, at most 8."""
    return max(1, min(int(usable_cores()), 8))


def visible_gpus() -> list[str]:
    """The GPUs that runs may use, as CUDA_VISIBLE_DEVICES names them, without loading torch."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    if told is not None:
        return [name for name in told.split(",") if name.strip()]
    found, listed = ask("nvidia-smi", "-L")
    return [str(i) for i, _ in enumerate(re.findall(r"^GPU ", listed, re.MULTILINE))] if found else []


@dataclass
class Worker:
    """A process at work on one run."""

    key: str
    process: ForkServerProcess
    counter: Counter
    gpu: str | None


class Pool:
    """At most `workers` processes at a time, dealt out over the GPUs if there are any.

    Args:
        root: the store.
        workers: number of processes; None: by cores, or one per GPU.
    """

    def __init__(self, root: Path, workers: int | None = None) -> None:
        self.root = root
        gpus = visible_gpus()
        self.size = workers or len(gpus) or default_workers()
        self.free_gpus = [gpus[i % len(gpus)] for i in range(self.size)] if gpus else []
        self.running: dict[str, Worker] = {}
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["sweeps.preload"])
        os.environ[environment.CODE_VERSION_VARIABLE] = environment.code_version()
        resource_tracker.ensure_running()  # its start unblocks signals: not while we hold them back
        with _signals_held_back():
            forkserver.ensure_running()

    @property
    def has_room(self) -> bool:
        """Whether another run may start."""
        return len(self.running) < self.size

    def start(self, key: str, settings: Mapping[str, Value]) -> None:
        """Start a run."""
        gpu = self.free_gpus.pop(0) if self.free_gpus else None
        counter: Any = self._context.RawValue("q", 0)
        process = self._context.Process(target=_work, args=(self.root, dict(settings), counter, gpu))
        process.start()
        self.running[key] = Worker(key, process, counter, gpu)

    def finished(self, timeout: float) -> list[tuple[str, int]]:
        """Wait up to `timeout` seconds for runs to end; those runs and exit statuses (negative: a signal)."""
        wait([worker.process.sentinel for worker in self.running.values()], timeout)
        ended = [worker for worker in self.running.values() if not worker.process.is_alive()]
        for worker in ended:
            worker.process.join()
            del self.running[worker.key]
            if worker.gpu is not None:
                self.free_gpus.append(worker.gpu)
        return [(worker.key, worker.process.exitcode or 0) for worker in ended]

    def steps_done(self) -> int:
        """Updates made so far by the processes at work."""
        return sum(worker.counter.value for worker in self.running.values())

    def stop(self) -> None:
        """Ask every process to save and stop, and wait for them."""
        for worker in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.process.pid or 0, signal.SIGTERM)
        while self.running:
            self.finished(timeout=1.0)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """What is started meanwhile inherits blocked stop signals, and a worker unblocks them once it can save.

    Otherwise Ctrl-C in the seconds in which the server imports torch would kill it under our hands.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(root: Path, settings: Mapping[str, Value], counter: Counter, gpu: str | None) -> None:
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    sys.exit(execute(root, settings, counter))
