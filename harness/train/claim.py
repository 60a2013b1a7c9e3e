"""The claim of a run by the process that is to make it, whoever trains: our loop or a program. Torch-free."""

import logging
import time

from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, RunState, Store
from htbench.harness.store.owner import may_be_ending
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


def refusal(key: str, state: RunState) -> str:
    """Why a run that has no record can't be claimed."""
    at_work = state.status is Status.RUNNING
    what = f"is being trained by {state.owner}" if at_work else f"failed ({state.reason})"
    return f"Run {key} {what}{': ' if state.message else ''}{state.message}."
