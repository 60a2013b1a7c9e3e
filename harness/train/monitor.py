"""The connection of a run to its caller: stop requests go in, progress and evaluations come out."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGHUP)


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Block STOP_SIGNALS in processes started meanwhile; `stop_on_signals` unblocks them."""
    resource_tracker.ensure_running()  # its start unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def handle(
    handler: Callable[[int, FrameType | None], object], numbers: Iterable[int] = STOP_SIGNALS
) -> dict[int, Any]:
    """Let signals call `handler`, but not a SIGHUP that is ignored, as `nohup` wants it.

    Returns:
        the handlers before.
    """
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return {number: signal.signal(number, handler) for number in numbers if number not in ignored}


class Monitor:
    """Observes a run without changing its numbers. This class itself does nothing.

    Args:
        progress: called with the number of updates made, every `log_every` steps and before evaluations.
        report: called with step and validation metrics after each evaluation; it may raise PrunedError. After
            a resume it is called with the last evaluation again.
        study: the study that wants the run. A run that it prunes has ended for this study only.
        patience: seconds to wait for an owner whose job is ending.
    """

    def __init__(
        self,
        progress: Callable[[int], None] = lambda step: None,
        report: Callable[[int, Mapping[str, float | None]], None] = lambda step, metrics: None,
        study: str = "",
        patience: float = 0.0,
    ) -> None:
        self.progress = progress
        self.report = report
        self.study = study
        self.patience = patience
        self.stop_requested = False
        self.signals: set[int] = set()
        self._others: Sequence[Monitor] = ()

    def stop_on_signals(self, *others: Monitor) -> None:
        """From now on signals ask for a stop at the next step boundary, also of the runs of other monitors.

        They are SIGTERM, SIGINT, SIGHUP of a terminal that is gone, and SIGUSR2, SLURM's warning. A handler
        only sets a flag: saving from inside one could interrupt a save that is under way.
        """

        self._others = others
        handle(self._request_stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # blocked until now

    @property
    def stop_flags(self) -> list[bool]:
        """Whether to stop, and which of STOP_SIGNALS asked for it."""
        return [self.stop_requested, *(number in self.signals for number in STOP_SIGNALS)]

    def adopt(self, stop_flags: Sequence[bool]) -> bool:
        """Take over the flags of all processes of the run; a signal may have reached only one process.

        Returns:
            whether all processes stop now. A later request counts at the next step boundary.
        """
        stop, *heard = stop_flags
        self.stop_requested = self.stop_requested or stop
        self.signals.update(number for number, wished in zip(STOP_SIGNALS, heard, strict=True) if wished)
        return stop

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        for monitor in (self, *self._others):
            monitor.stop_requested = True
            monitor.signals.add(number)
