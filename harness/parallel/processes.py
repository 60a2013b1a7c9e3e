"""The processes of one run on this machine: started together, and ended soon after one of them fails.

They also end when their launcher dies. SIGKILL of the launcher sends them nothing, and the parent of a
process from a forkserver is the server. So each process reads a pipe whose other end only the launcher has.
When that end closes, the process sends itself SIGTERM, saves and ends.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

GRACE_SECONDS = 5.0  # after a failure, for the other processes to notice it and to log
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Ranks:
    """`size` processes that each call `work(*arguments)`, with the variables that torchrun would set.

    Args:
        context: of multiprocessing.
        size: number of processes; a single one gets no variables.
        work: a function of a module.
        arguments: for it.
    """

    def __init__(
        self,
        context: ForkServerContext | SpawnContext,
        size: int,
        work: Callable[..., object],
        arguments: tuple[Any, ...],
    ) -> None:
        variables: list[dict[str, str]] = [{}] * size
        if size > 1:
            port = _find_free_port()
            places = ((rank, size, rank, size, "127.0.0.1", port) for rank in range(size))
            variables = [dict(zip(VARIABLES, map(str, place), strict=True)) for place in places]
        lifeline, self._alive = context.Pipe(duplex=False)  # open as long as this process lives
        self.processes = [
            context.Process(target=_enter, args=(lifeline, mapping, work, arguments)) for mapping in variables
        ]
        for process in self.processes:
            process.start()
        lifeline.close()
        self._status = 0
        self._deadline: float | None = None

    @property
    def sentinels(self) -> list[int]:
        """What `multiprocessing.connection.wait` needs to wait for the end of any live process."""
        return [process.sentinel for process in self.processes if process.is_alive()]

    def poll(self) -> int | None:
        """The exit status of the run, None while a process lives. Call it repeatedly: it also kills.

        Negative if a signal killed a process, else the status of the first process that failed.
        """
        codes = [process.exitcode for process in self.processes]
        failed = [code for code in codes if code]
        if self._deadline is None or time.monotonic() < self._deadline:
            self._status = next((code for code in failed if code < 0), failed[0] if failed else 0)
            if failed and self._deadline is None:
                self._deadline = time.monotonic() + GRACE_SECONDS
        else:
            for process in self.processes:
                process.kill()
        if None in codes:
            return None
        for process in self.processes:
            process.join()
        self._alive.close()
        return self._status

    def signal(self, number: int) -> None:
        """Send a signal to all live processes."""
        for process in self.processes:
            if process.exitcode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid or 0, number)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _enter(
    lifeline: Connection,
    variables: Mapping[str, str],
    work: Callable[..., object],
    arguments: tuple[Any, ...],
) -> None:
    threading.Thread(target=_stop_when_alone, args=(lifeline,), daemon=True).start()
    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables)
    work(*arguments)


def _stop_when_alone(lifeline: Connection) -> None:
    """Wait for the death of the launcher, then send SIGTERM, which waits while the run blocks signals."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()  # nothing is ever sent
    os.kill(os.getpid(), signal.SIGTERM)
