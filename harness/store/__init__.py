"""The store: one folder per run, one owner per folder, one record per run."""

from harness.store.attempt import Attempt
from harness.store.store import Kind, RunState, Store

__all__ = ["Attempt", "Kind", "RunState", "Store"]
