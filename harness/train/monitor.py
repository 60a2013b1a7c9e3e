"""The line between a run and whoever started it: stop requests go in, progress and evaluations come out."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Processes started meanwhile hold STOP_SIGNALS back until they can save: until `stop_on_signals`."""
    resource_tracker.ensure_running()  # its start unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Monitor:
    """Watches a run without touching its numbers. The plain one wants nothing.

    Args:
        progress: called with the number of updates made whenever the loop looks up.
        report: called with step and validation figures after each evaluation; it may raise PrunedError. After
            a resume it is told the last evaluation once more.
        study: the study on whose behalf the run is made; what it prunes is over for it, for nobody else.
    """

    def __init__(
        self,
        progress: Callable[[int], None] = lambda step: None,
        report: Callable[[int, Mapping[str, float | None]], None] = lambda step, figures: None,
        study: str = "",
    ) -> None:
        self.progress = progress
        self.report = report
        self.study = study
        self.stop_requested = False
        self.signals: set[int] = set()

    def stop_on_signals(self) -> None:
        """From now on SIGTERM, SIGINT and SIGUSR2 (SLURM's warning) ask for a stop at the next step boundary.

        A handler only sets a flag: saving from inside one could interrupt a save that is under way.
        """
        for number in STOP_SIGNALS:
            signal.signal(number, self._request_stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # held back until now

    @property
    def wishes(self) -> list[bool]:
        """Whether to stop, and which of STOP_SIGNALS asked for it."""
        return [self.stop_requested, *(number in self.signals for number in STOP_SIGNALS)]

    def adopt(self, wishes: Sequence[bool]) -> bool:
        """Wish what any process of the run wishes; the signal may have reached only one of them.

        Returns:
            whether they have agreed to stop. What was asked for while they did is for the next step boundary.
        """
        stop, *heard = wishes
        self.stop_requested = self.stop_requested or stop
        self.signals.update(number for number, wished in zip(STOP_SIGNALS, heard, strict=True) if wished)
        return stop

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop_requested = True
        self.signals.add(number)
