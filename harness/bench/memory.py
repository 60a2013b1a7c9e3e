"""Peak memory of training steps, each side in a fresh process, so that nothing of the other one counts."""

from __future__ import annotations

import dataclasses
import multiprocessing
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import torch

import models
from harness.bench.chunked import loss_side
from harness.bench.train import Setup
from harness.bench.workloads import workloads
from harness.spectra import layers

STEPS = 3  # the second one has the optimizer's state


def of_training(setup: Setup, side: str) -> int:
    """Peak bytes of a few steps of "ours" or "theirs", weights and optimizer included."""
    return _in_fresh_process(_training, setup, side, torch.get_num_threads())


def of_loss(kind: str, rows: int, hidden: int, words: int, dtype: torch.dtype, device: str) -> int:
    """Peak bytes of the head's loss and its gradients, "chunked" or "plain", inputs included."""
    return _in_fresh_process(_loss, kind, rows, hidden, words, dtype, device)


def of_spectra(model: str, method: str) -> int:
    """Peak bytes of the spectra of all layers of a model, above its weights."""
    return _in_fresh_process(_spectra, model, method)


def _in_fresh_process(function: Callable[..., int], *args: Any) -> int:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def _training(setup: Setup, side: str, threads: int) -> int:
    torch.set_num_threads(threads)
    small = "gpt2-nano" if setup.work.model.startswith("gpt2") else "llama-nano"
    (warm_up,) = workloads(small, batch=1)
    for one in ("ours", "theirs"):  # loads what either imports when it is first used
        _train(dataclasses.replace(setup, work=warm_up), one)
    return _peak_of(lambda: _train(setup, side), setup.precision.device)


def _train(setup: Setup, side: str) -> None:
    trainer = setup.alone(side)
    for _ in range(STEPS):
        trainer.step(lambda: 0.0)


def _loss(kind: str, rows: int, hidden: int, words: int, dtype: torch.dtype, device: str) -> int:
    torch.set_num_threads(1)
    loss_side(kind, 1, 1, 2, dtype, device).step(lambda: 0.0)
    return _peak_of(lambda: loss_side(kind, rows, hidden, words, dtype, device).step(lambda: 0.0), device)


def _spectra(model: str, method: str) -> int:
    torch.set_num_threads(1)
    layers.measure(models.build("llama-nano"), method=method)
    weights = models.build(model).state_dict()
    return _peak_of(lambda: layers.measure(weights, method=method, include="all"), "cpu")


def _peak_of(work: Callable[[], object], device: str) -> int:
    """Bytes that `work` needs at most: of the device's allocator, or resident ones above those before it.

    The resident set's greatest size never shrinks, so it must not have been above what is resident now.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        work()
        return torch.cuda.max_memory_allocated()
    before = psutil.Process().memory_info().rss
    work()
    return _greatest() - before


def _greatest() -> int:
    """Greatest resident bytes of this process. On Linux `getrusage` tells the parent's if that had more."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts in bytes
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
