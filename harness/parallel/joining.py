"""How the processes of a run find each other: what their launcher said, and the wait until all are there.

torch waits inside of C++: ten minutes without a word, deaf to signals, as happens where WORLD_SIZE was left
in a shell. So each process writes its number into torch's store and looks itself whose are missing.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from htbench.harness.errors import RunFailedError, StoppedError, UsageError
from htbench.harness.parallel.group import ALONE, PATIENCE, Group
from htbench.harness.show.note import Note

Store = Any  # torch's, which its type hints do not export

log = logging.getLogger("htbench")

PAUSE = 0.1  # seconds between two looks
QUIET = 10.0  # seconds before the first word: processes that start together come within a few
BETWEEN = 60.0  # seconds between later words
_ANSWER = timedelta(seconds=5)  # of a store that accepts connections

# What the processes agree on. The last two are kinds of notes.
_GO, _STOP, _LATE = "go", "processes_not_awaited", "processes_missing"


def started() -> bool:
    """Whether this process was started as one of several of a run, for example by torchrun."""
    return "WORLD_SIZE" in os.environ


def place() -> Group:
    """This process among those of its run, as the variables that torchrun sets say it.

    They are RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Without WORLD_SIZE it is alone.

    Raises:
        UsageError: some are missing or contradict each other.
    """
    size = _read_number("WORLD_SIZE", 1, None, default=1)
    if size == 1:
        return ALONE
    if missing := [x for x in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(x)]:
        raise UsageError(str(Note("processes_unplaced", size=size, missing=missing)))
    rank = _read_number("RANK", 0, size - 1)
    _read_number("MASTER_PORT", 1, 65535)
    return Group(rank, size, _read_number("LOCAL_RANK", 0, None, default=rank))


def _read_number(name: str, least: int, most: int | None, default: int = 0) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or not least <= int(text) <= (int(text) if most is None else most):
        raise UsageError(str(Note("variable_wrong", name=name, value=text, least=least, most=most)))
    return int(text)


def is_main() -> bool:
    """Whether this process was started as the main process."""
    return place().is_main


@contextmanager
def joined(is_stopped: Callable[[], bool] = lambda: False) -> Iterator[Group]:
    """The group of the processes that were started together; waits for all of them.

    Args:
        is_stopped: whether to wait no longer.

    Raises:
        UsageError: as `place`, or the main process can't listen.
        RunFailedError: some processes did not come within PATIENCE.
        StoppedError: `is_stopped` said so.
    """
    group = place()
    if group.size == 1:
        yield ALONE
        return
    import torch
    from torch import distributed

    store = _await_all(group, is_stopped)
    # Gradients are exchanged between GPUs if there are any, all else between CPUs: that waits for no GPU and
    # notices closed connections at once.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        distributed.init_process_group(
            backend, store=store, rank=group.rank, world_size=group.size, timeout=PATIENCE
        )
    except (RuntimeError, ValueError) as error:
        raise RunFailedError(f"The processes of this run did not find each other: {error}.") from error
    try:
        yield group
    except StoppedError:  # all processes stop together, as at the end
        distributed.destroy_process_group()
        raise
    distributed.destroy_process_group()  # not after an error: it could hang


def _await_all(group: Group, is_stopped: Callable[[], bool]) -> Store:
    """torch's store, once all processes have written their numbers into it.

    They all go on or none: whoever knows first that all are there, or that it waits no longer, writes a word,
    and that word counts for all.
    """
    store: Store | None = None
    began, next_word = time.monotonic(), time.monotonic() + QUIET
    at = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    while True:
        now, missing, why = time.monotonic(), [0], ""
        word = _STOP if is_stopped() else _LATE if now - began > PATIENCE.total_seconds() else ""
        try:
            store = store or _open_store(group)
            missing = [rank for rank in range(group.size) if not store.check([str(rank)])]
            if word or not missing or store.check(["word"]):
                word = store.compare_set("word", "", word or _GO).decode()
            if word == _GO:
                return store
        except OSError as error:
            why = error.strerror or str(error)
        except RuntimeError:  # the main process is gone, maybe to be started again
            store = None
        facts = {"at": at, "size": group.size, "missing": len(missing), "ranks": missing, "why": why}
        note = Note(word or "processes_awaited", seconds=PATIENCE.total_seconds(), **facts)
        if word:
            raise (StoppedError if word == _STOP else RunFailedError)(str(note))
        if now > next_word:
            log.warning("%s", note)
            next_word = now + BETWEEN
        time.sleep(PAUSE)


def _open_store(group: Group) -> Store:
    """torch's store with the number of this process in it. torchrun may have started one, else rank 0 does.

    Raises:
        OSError: there is none yet.
        RuntimeError: it does not answer.
        UsageError: the main process can't listen.
    """
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    serves = group.is_main and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if serves:
        host = "localhost"
    else:
        # torch would tell of each try
        socket.create_connection((host, port), _ANSWER.total_seconds()).close()
    try:
        store = TCPStore(host, port, None, serves, timeout=_ANSWER, wait_for_workers=False)
    except RuntimeError as error:
        if serves:
            raise UsageError(str(Note("port_taken", port=port, why=str(error).splitlines()[0]))) from None
        raise
    store.set_timeout(PATIENCE)
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun's store outlives the processes
    # Who was told of another size is awaited in vain.
    shared_store = PrefixStore(f"htbench/{again}/{group.size}", store)
    shared_store.set(str(group.rank), "")
    return shared_store
