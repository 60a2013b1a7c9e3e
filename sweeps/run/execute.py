"""What a job does, in the local pool and on SLURM: it trains the run of one point of a sweep.

The outcome is in the store and in the exit status. A point of a grid has its settings; a slot of a search
asks its study for them.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from htbench.harness.config import RunConfig, parts
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.estimate import for_record
from htbench.harness.errors import (
    LostOwnershipError,
    RunFailedError,
    StoppedError,
    UsageError,
    is_full,
    refused,
)
from htbench.harness.parallel.group import ALONE, Group
from htbench.harness.parallel.joining import is_main, joined
from htbench.harness.store import Store
from htbench.harness.store.points import Point
from htbench.harness.store.record import RunRecord
from htbench.harness.train.monitor import Monitor

Train = Callable[[RunConfig, Store, Monitor], RunRecord]

EXIT_DONE, EXIT_ENDED, EXIT_STOPPED, EXIT_FULL = 0, 1, 2, 3


def execute(
    root: Path,
    point: Point,
    monitor: Monitor,
    say: Callable[[Exception], object] = lambda error: None,
    train: Train | None = None,
) -> int:
    """Work on one point. A second call for the same point goes on with the same run, however the first ended.

    Each process of a run calls this. If all agree to stop, only the main one returns a status other than 0: a
    launcher that sees one of another process takes it for a crash and kills all.

    Args:
        root: the store.
        point: with settings, or an empty slot.
        monitor: stop requests and progress; from now on signals go to it.
        say: gets the reason why a run has no record.
        train: what makes the record; by default the training.

    Returns:
        0: there is a record; 1: it ended otherwise, as the store says; 2: it was asked to stop; 3: the disk
        is full.
    """
    monitor.stop_on_signals()
    return _execute(root, point, monitor, say, train)


def execute_together(
    root: Path, points: Sequence[Point], monitors: Sequence[Monitor], say: Callable[[Exception], object]
) -> int:
    """Work on several points whose runs may be trained as one; a thread for each, see `harness.train.stack`.

    Args:
        root: the store.
        points: with settings, of one process each.
        monitors: of each point.
        say: gets the reason why a run has no record.

    Returns:
        the largest status of `execute` of a point.
    """
    from htbench.harness.train.stack import Stack  # imports torch

    monitors[0].stop_on_signals(*monitors[1:])
    stack, statuses = Stack(0), [EXIT_ENDED] * len(points)

    def work(number: int) -> None:
        with stack.joined():
            train = partial(_train, ALONE, make_learner=stack.learner)
            statuses[number] = _execute(root, points[number], monitors[number], say, train)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(points))]
    with stack.turn, contextlib.suppress(RuntimeError):  # the system may allow no more threads
        for thread in threads:
            thread.start()
            stack.members += 1
    for thread in threads:
        if thread.ident:
            thread.join()
    return max(statuses)


def _execute(
    root: Path, point: Point, monitor: Monitor, say: Callable[[Exception], object], train: Train | None
) -> int:
    parts.allow(parts.named(point.overrides))
    store = Store(root)
    try:
        config = None if point.slot else _as_planned(point)  # refused before a process waits for others
        with joined(lambda: monitor.stop_requested) as group:
            work = train or partial(_train, group)
            if config is None:
                _work_on_slot(store, point, monitor, work, group)
            else:
                work(config, store, monitor)
    except StoppedError as error:
        if not is_main():
            return EXIT_DONE
        say(error)
        return EXIT_STOPPED
    except (LostOwnershipError, RunFailedError, UsageError, OSError) as error:
        full = is_full(error) or is_full(error.__cause__)
        # The system refuses before the store has the run, or when the end of the run shall be noted there.
        told = UsageError(f"{refused(error, root)}.") if isinstance(error, OSError) else error
        say(RunFailedError(str(told)) if full else told)  # a pool shows mistakes in the input only
        return EXIT_FULL if full else EXIT_ENDED
    return EXIT_DONE


def _as_planned(point: Point) -> RunConfig:
    config = resolve_config(point.overrides)
    if run_key(config) != point.key:
        raise UsageError(
            f"Run {point.key} was planned with other code, data or defaults than this machine has now; "
            f"give the command again."
        )
    return config


def _work_on_slot(store: Store, point: Point, monitor: Monitor, train: Train, group: Group) -> None:
    if not group.is_main:
        train(resolve_config(group.broadcast({})), store, monitor)
        return
    from htbench.sweeps.studies import trial as trials  # imports Optuna

    trial = trials.take(store, point.sweep, point.slot)
    monitor.study, monitor.report = trial.study, trial.report
    trial.tell(train(resolve_config(group.broadcast(trial.settings)), store, monitor))


def _train(group: Group, config: RunConfig, store: Store, monitor: Monitor, **options: Any) -> RunRecord:
    if config.program:
        from htbench.harness.train.program import run_program

        return run_program(config, store, monitor)
    from htbench.harness.train.run import run  # imports torch

    return run(resolved(config), store, monitor, group, for_record, **options)
