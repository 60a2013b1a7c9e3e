"""Runs that are finished in one go, or stopped on their way."""

import pytest

from htbench.harness.config.key import resolved
from htbench.harness.cost.estimate import for_record
from htbench.harness.errors import StoppedError
from htbench.harness.store import Store
from htbench.harness.store import curve as metrics
from htbench.harness.train import run
from htbench.harness.train.monitor import Monitor


class StopAfter(Monitor):
    """Asks for a stop once `step` updates are made."""

    def __init__(self, step):
        super().__init__(progress=self.look)
        self.step = step

    def look(self, step):
        self.stop_requested = step >= self.step


def finish(config, root):
    store = Store(root)
    record = run.run(resolved(config), store, count=for_record)
    return record, metrics.read(store.run_folder(record.key) / "metrics.jsonl")


def interrupt(config, root, step):
    with pytest.raises(StoppedError, match=r"stopped at step"):
        run.run(resolved(config), Store(root), StopAfter(step))
