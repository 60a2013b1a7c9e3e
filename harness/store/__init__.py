"""The store: one folder per run, one owner per folder, one record per run."""

from harness.store.attempt import Attempt
from harness.store.run_folder import Reason
from harness.store.store import Kind, RunState, Store

__all__ = ["Attempt", "Kind", "Reason", "RunState", "Store"]
