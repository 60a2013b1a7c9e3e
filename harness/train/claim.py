"""The claim of a run by the process that is to make it, whoever trains: our loop or a program. Torch-free."""

import logging
import time

from htbench.harness.errors import RunFailedError, StoppedError
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, RunState, Store
from htbench.harness.store.owner import may_be_ending
from htbench.harness.store.record import RunRecord
from htbench.harness.train.monitor import Monitor

log = logging.getLogger("htbench")

PAUSE = 1.0  # seconds between two looks at an owner that is ending


def claim_patiently(key: str, text: str, store: Store, monitor: Monitor) -> Attempt | RunState | None:
    """The claim, once an owner whose job is ending has saved; None if `monitor` asks for a stop before."""

    def is_to_come(claim: Attempt | RunState) -> bool:
        """Whether the run is at work, but may soon be free."""
        return isinstance(claim, RunState) and claim.status is Status.RUNNING and may_be_ending(claim.owner)

    claim, until = store.claim(key, text, monitor.study), time.monotonic() + monitor.patience
    if is_to_come(claim) and monitor.patience:
        log.warning("run %s waits for %s, whose job is ending", key, claim.owner)
    while is_to_come(claim) and time.monotonic() < until:
        if monitor.stop_requested:
            return None
        time.sleep(PAUSE)
        claim = store.claim(key, text, monitor.study)
    return claim


def take(key: str, claim: Attempt | RunState | None) -> Attempt | RunRecord:
    """What `claim_patiently` has won: the attempt, or the record of a run that has ended.

    Raises:
        StoppedError: a stop was asked for meanwhile.
        RunFailedError: another process trains the run, or it has failed.
    """
    if claim is None:
        raise StoppedError(f"Run {key} was stopped while it waited for the job before it.")
    if isinstance(claim, Attempt):
        return claim
    if claim.record is not None:
        return claim.record
    at_work = claim.status is Status.RUNNING
    what = f"is being trained by {claim.owner}" if at_work else f"failed ({claim.reason})"
    raise RunFailedError(f"Run {key} {what}{': ' if claim.message else ''}{claim.message}.")
