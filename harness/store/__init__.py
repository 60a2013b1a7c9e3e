"""The store: one folder per run, one owner per folder, one record per run."""

from harness.store.attempt import Attempt
from harness.store.run_folder import Reason
from harness.store.store import RunState, Store

__all__ = ["Attempt", "Reason", "RunState", "Store"]
