"""Commands as processes of their own that need not load torch first: forked from one that has.

The server is a fresh Python that only imports. Each command is its grandchild, in a process group of its own,
and runs `htbench.__main__` as `python -m htbench` does. What the command would start as a fresh Python
(the servers of multiprocessing, the ranks of a run) is forked from it, too. So kills, signals and the family
of processes are the real ones. Nothing here shows what a fresh Python imports or what a terminal sees; see
`Htbench(fresh=True)`.
"""

import atexit
import contextlib
import functools
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from multiprocessing import util
from pathlib import Path
from typing import IO, Any, NoReturn

from htbench.harness.config.settings import resolve_config
from tests.helpers import prepared

PRELOAD = (
    "htbench.sweeps.run.preload",
    "htbench.sweeps.commands",
    "htbench.sweeps.studies.trial",
    "htbench.results.commands",
)
# To resolve these takes the digests of most of the code that makes numbers; a process keeps them.
CONFIGS = [
    {"task": task, "model": model, "steps": 1, "batch_size": 16, "optimizer.name": name}
    for task, model in (("digits", "resnet-nano"), ("pydocs", "llama-nano"))
    for name in ("sgdm", "adamw", "htmuon")
]
_REQUEST = 1 << 17  # bytes; a request holds an environment


class Command:
    """A command at work, with the part of `subprocess.Popen` that tests need.

    Args:
        words: of `htbench`, or `-c CODE WORDS` as for Python itself.
        env: all of its environment.
        cwd: its working folder, None: ours.
    """

    def __init__(self, words: list[str], env: dict[str, str], cwd: Path | None) -> None:
        self.returncode: int | None = None
        self.stdout, self.stderr = _file(), _file()
        mine, its = os.pipe()
        self._status = open(mine, buffering=1)  # lives as long as this object
        request = json.dumps({"words": words, "env": env, "cwd": str(cwd or os.getcwd())})
        try:
            socket.send_fds(_server(), [request.encode()], [self.stdout.fileno(), self.stderr.fileno(), its])
        finally:
            os.close(its)
        self.pid = int(self._status.readline())

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative if a signal ended it."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("htbench", timeout or 0)
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit status, None while it is at work."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """To the command alone, not to its group."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it has printed, once it has ended."""
        self.wait(timeout)
        texts = []
        for file in (self.stdout, self.stderr):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return texts[0], texts[1]


def _file() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", newline="")


@functools.cache
def _server() -> socket.socket:
    """The way to the server of this process; it ends once the other end is closed."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
    return ours


# --- in the server ---


def serve(requests: socket.socket) -> None:
    """Fork a command for every request; returns in the command's process, as if it had just begun."""
    for name in PRELOAD:
        importlib.import_module(name)
    for settings in CONFIGS:
        resolve_config(settings)
    prepared.share()
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        text, files, _, _ = socket.recv_fds(requests, _REQUEST, 3)
        if not text:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            if _is_command(files[2]):
                return _begin(json.loads(text), *files)
        for file in files:
            os.close(file)


def _is_command(status: int) -> bool:
    """Fork the command; whoever stays behind waits for it and tells how it ended."""
    pid = os.fork()
    if pid:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, f"{code}\n".encode())
        os._exit(0)
    return True


def _begin(request: dict[str, Any], out: int, err: int, status: int) -> None:
    os.setsid()
    os.write(status, f"{os.getpid()}\n".encode())
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, max(out, err, status) + 1)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    sys.stdout = open(1, "w", encoding=encoding, errors=errors or "strict", closefd=False)
    sys.stderr = open(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)
    sys.argv[1:] = request["words"]
    sys.path[0] = request["cwd"]
    util.spawnv_passfds = _fork_instead


def _fork_instead(path: bytes, args: list[str], passfds: list[int]) -> int:
    """Stands in for multiprocessing's start of a fresh Python, which runs `-c CODE` with these files open."""
    pid = os.fork()
    if pid:
        return pid
    _close_all_but({0, 1, 2, *passfds})
    threading._threading_atexits.clear()  # a fresh Python has no pools, and those of the parent are not here
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = args[args.index("-c") :]
    _run(sys.argv.pop(1))


def _close_all_but(kept: set[int]) -> None:
    """As `exec` would: a lock that the parent holds must not be held by its children."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _run(code: str = "") -> NoReturn:
    """Run the code, else the command, and end as `python` does, but leave all that is loaded as it is.

    To take torch apart object by object would take longer than most commands.
    """
    status = 1
    try:
        if code:
            exec(code, {"__name__": "__main__"})
        else:
            runpy.run_module("htbench", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the code may have closed it
                stream.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv.pop())))
    if sys.argv[1:2] == ["-c"]:
        del sys.argv[0]
        _run(sys.argv.pop(1))
    _run()
