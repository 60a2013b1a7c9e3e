"""The store: one folder per run, one owner per folder, one record per run."""

from htbench.harness.store.attempt import Attempt
from htbench.harness.store.run_folder import Reason
from htbench.harness.store.store import RunState, Store

__all__ = ["Attempt", "Reason", "RunState", "Store"]
