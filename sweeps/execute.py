"""What a job does: one run, in a process of its own, its outcome left in the store and an exit status."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from harness.config import Value
from harness.errors import LostOwnershipError, RunFailedError, StoppedError, UsageError
from harness.monitor import Monitor
from harness.settings import make
from harness.store import Store

EXIT_DONE, EXIT_ENDED, EXIT_STOPPED = 0, 1, 2


class Counter(Protocol):
    """A number that two processes share."""

    value: int


def execute(root: Path, settings: Mapping[str, Value], counter: Counter) -> int:
    """Train one run.

    Args:
        root: the store.
        settings: the point's settings.
        counter: told the number of updates made, for the progress bar.

    Returns:
        0: there is a record; 1: it ended otherwise, the store knows how; 2: it was asked to stop.
    """

    def progress(step: int) -> None:
        counter.value = step

    monitor = Monitor(progress)
    monitor.stop_on_signals()

    from harness.train import run  # imports torch

    try:
        run(make(settings), Store(root), monitor)
    except StoppedError:
        return EXIT_STOPPED
    except (LostOwnershipError, RunFailedError, UsageError):
        return EXIT_ENDED
    return EXIT_DONE
