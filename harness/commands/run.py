"""`htbench run`: one run, in this process or in as many as its config says."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
from multiprocessing.connection import wait

from harness.commands import one_run
from harness.config import limits
from harness.config.key import ResolvedRun, resolved
from harness.config.settings import resolve_config
from harness.cost import kept
from harness.errors import (
    EXIT_INTERRUPTED,
    EXIT_RUN_FAILED,
    LostOwnershipError,
    RunFailedError,
    StoppedError,
    UsageError,
)
from harness.parallel.group import is_main, joined, started
from harness.parallel.processes import Ranks
from harness.store import Store
from harness.store.layout import cache_folder
from harness.system.folders import make_folder
from harness.train.monitor import Monitor, handle, signals_held_back


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG and overrides."""
    parser.add_argument(
        "words", nargs="*", metavar="CONFIG | key=value", help="a YAML file and settings over it"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress: only results and errors")


def run(args: argparse.Namespace) -> int:
    """Train with a progress bar and print the metrics."""
    config = resolve_config(one_run.settings(args.words, "`htbench sweep run {file}` trains it"))
    run = resolved(config)
    if not started():  # the launcher of several processes has checked it
        limits.check_data(config, cache_folder(args.root))
        limits.warn(limits.check_here(config))
    make_folder(args.root)
    if config.processes > 1 and not started():
        return _start_all(args, config.processes)
    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(logging.WARNING if args.quiet else logging.NOTSET)  # the run's own log has all messages
    logging.basicConfig(handlers=[shown], format="%(message)s")
    try:
        return _train(args, run)
    except (StoppedError, RunFailedError, LostOwnershipError, UsageError) as error:
        if is_main():  # an error ends all processes: report it once
            raise
        return EXIT_INTERRUPTED if isinstance(error, StoppedError) else EXIT_RUN_FAILED


def _train(args: argparse.Namespace, run: ResolvedRun) -> int:
    from tqdm import tqdm

    from harness.train import run as train  # imports torch

    hidden = args.quiet or not is_main()
    with tqdm(total=run.config.steps, unit="step", disable=hidden, dynamic_ncols=True) as bar:
        monitor = Monitor(lambda step: bar.update(step - bar.n))
        monitor.stop_on_signals()
        with joined() as group:
            record = train.run(run, Store(args.root), monitor, group, kept.for_record)
    if group.is_main:
        print(
            f"run {record.key}: {record.status} after {record.steps} steps"
            f"{': ' if record.note else ''}{record.note}"
        )
        for name, value in record.metrics.items():
            print(f"  {name:22} {value if value is None else format(value, '.6g')}")
    return 0


def _start_all(args: argparse.Namespace, processes: int) -> int:
    """Start this command once for each process of the run, as `torchrun --nproc-per-node` does."""
    words = ["run", "--root", str(args.root), *args.words, *(["--quiet"] if args.quiet else [])]
    with signals_held_back():
        ranks = Ranks(multiprocessing.get_context("spawn"), processes, _again, (words,))
        handle(lambda number, frame: ranks.signal(number))
    while (status := ranks.poll()) is None:
        wait(ranks.sentinels, 0.2)
    if status < 0:
        raise RunFailedError(
            f"A process of the run was killed (signal {-status}); the same command goes on from the last "
            f"checkpoint."
        )
    return status


def _again(words: list[str]) -> None:
    from harness.cli import main

    sys.exit(main(words))
