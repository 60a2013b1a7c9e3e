"""Shared by the tests of collective operations: a function called in several real processes."""

import multiprocessing
import tempfile
from multiprocessing.connection import wait
from pathlib import Path

import torch

from htbench.harness.parallel.joining import joined
from htbench.harness.parallel.processes import Ranks


def start_ranks(size, work, *arguments):
    """Processes that each call `work(*arguments)`, a function of a module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["htbench.sweeps.run.preload"])
    return Ranks(context, size, work, arguments)


def end(ranks):
    """Wait for all processes; the status of the whole."""
    while (status := ranks.poll()) is None:
        wait(ranks.sentinels, 0.1)
    return status


def in_group(size, work, *arguments):
    """What `work(group, *arguments)` returns in each of `size` processes."""
    with tempfile.TemporaryDirectory() as folder:
        assert end(start_ranks(size, call, Path(folder), work, arguments)) == 0
        return [torch.load(Path(folder, f"{rank}.pt"), weights_only=False) for rank in range(size)]


def call(folder, work, arguments):
    torch.set_num_threads(1)
    with joined() as group:
        torch.save(work(group, *arguments), folder / f"{group.rank}.pt")
