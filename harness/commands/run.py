"""`htbench run`: one run, in this process or in as many as its config says."""

import argparse
import logging
import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from htbench.harness.config import limits, parts
from htbench.harness.config.key import ResolvedRun, resolved
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import resolve_config
from htbench.harness.config.yaml_text import read_words, read_yaml
from htbench.harness.cost.estimate import for_record
from htbench.harness.errors import (
    EXIT_INTERRUPTED,
    EXIT_RUN_FAILED,
    LostOwnershipError,
    RunFailedError,
    StoppedError,
    UsageError,
)
from htbench.harness.parallel.group import Group
from htbench.harness.parallel.joining import joined, place, started
from htbench.harness.parallel.processes import Ranks
from htbench.harness.show.commands import write_command
from htbench.harness.show.emit import emit
from htbench.harness.show.note import Note
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Column, Report, table
from htbench.harness.store import Store
from htbench.harness.store.layout import cache_folder
from htbench.harness.system.environment import our_code_only
from htbench.harness.system.folders import make_folder
from htbench.harness.train.monitor import Monitor, handle, signals_held_back


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG and overrides."""
    parser.add_argument(
        "words", nargs="*", metavar="CONFIG | key=value", help="a YAML file and settings over it"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress: only results and errors")


def given_settings(words: Sequence[str], for_sweeps: str, action: str) -> dict[str, Any]:
    """The settings of one run by their dotted names; what they name may be imported.

    Modules of parts may lie beside the file, or in the working folder.

    Args:
        words: `CONFIG` at most once, and `key=value`.
        for_sweeps: what a user with a sweep file wants instead.
        action: of `htbench sweep` that does it.

    Raises:
        UsageError: there are several files, one can't be read, or it describes a sweep.
    """
    files = [word for word in words if "=" not in word]
    if len(files) > 1:
        raise UsageError(f"One config file at most; got {', '.join(files)}.")
    tree = read_yaml(Path(files[0])) if files else {}
    if tree.keys() & {"base", "blocks", "space"}:
        command = write_command("sweep", action, files[0])
        raise UsageError(f"'{files[0]}' describes a sweep, not a run; `{command}` {for_sweeps}.")
    settings = flatten(tree) | read_words([word for word in words if "=" in word])
    parts.allow(parts.named(settings), *(Path(name).parent for name in files))
    return settings


def run(args: argparse.Namespace) -> int:
    """Train with a progress bar and print the metrics."""
    place()  # what can be refused is refused before a process waits for others
    config = resolve_config(given_settings(args.words, "trains it", "run"))
    run = resolved(config)
    limits.check_data(config, cache_folder(args.root))
    warnings = limits.check_here(config)
    if not started():  # the launcher of several processes has told them
        unmeant = [str(Note("schedule_unmeant", **facts)) for facts in limits.schedules_unmeant(config)]
        limits.warn([*warnings, *unmeant])
    make_folder(args.root)
    if config.processes > 1 and not started():  # as `torchrun --nproc-per-node` does
        words = ["run", "--root", str(args.root), *args.words, *(["--quiet"] if args.quiet else [])]
        with our_code_only(), signals_held_back():
            ranks = Ranks(multiprocessing.get_context("spawn"), config.processes, _again, (words,))
            handle(lambda number, frame: ranks.signal(number))
        while (status := ranks.poll()) is None:
            wait(ranks.sentinels, 0.2)
        if status < 0:
            raise RunFailedError(
                f"A process of the run was killed (signal {-status}); the same command goes on from the last "
                f"checkpoint."
            )
        return status
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING if args.quiet else logging.NOTSET)  # the run's own log has all messages
    logging.basicConfig(handlers=[handler], format="%(message)s")
    return _train(args, run)


def _train(args: argparse.Namespace, run: ResolvedRun) -> int:
    from htbench.harness.train import run as train  # imports torch

    placement = place()
    group: Group | None = None
    train.check_processes(run, placement.size)
    with Progress(run.config.steps, "steps", quiet=args.quiet or not placement.is_main) as progress:
        monitor = Monitor(progress.to)
        monitor.stop_on_signals()
        try:
            with joined(lambda: monitor.stop_requested) as group:
                record = train.run(run, Store(args.root), monitor, group, for_record)
        except (StoppedError, RunFailedError, LostOwnershipError, UsageError) as error:
            if placement.is_main or group is None:  # once joined, an error ends all processes: report it once
                raise
            return EXIT_INTERRUPTED if isinstance(error, StoppedError) else EXIT_RUN_FAILED
    if placement.is_main:
        end = Note("run_done", key=record.key, status=record.status, steps=record.steps, why=record.note)
        columns = (Column("metric", kind="text"), Column("value"))
        emit(Report("run", str(end), [table(columns, record.metrics.items())]), args)
    return 0


def _again(words: list[str]) -> None:
    from htbench.harness.cli import main

    sys.exit(main(words))
