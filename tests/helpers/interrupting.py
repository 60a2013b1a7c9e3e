"""Runs that are finished in one go, or stopped on their way."""

import pytest
import torch

from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import StoppedError
from htbench.harness.store import Store
from htbench.harness.store import curve as metrics
from htbench.harness.train import run
from htbench.harness.train.checkpoint import load_weights
from htbench.harness.train.monitor import Monitor


class StopAfter(Monitor):
    """Asks for a stop once `step` updates are made."""

    def __init__(self, step):
        super().__init__(progress=lambda now: setattr(self, "stop_requested", now >= step))


def finish(config, root, **options):
    """Record and curve of a run that is made to its end, with options of `run.run`."""
    store = Store(root)
    record = run.run(resolved(config), store, **options)
    return record, metrics.read(store.files(record.key).metrics)


def interrupt(config, root, step):
    with pytest.raises(StoppedError, match=r"stopped at step"):
        run.run(resolved(config), Store(root), StopAfter(step))


def assert_resumes(settings, root, *steps):
    """A run that is stopped after these steps ends with the bits of one that is not.

    Returns record and curve. The stores are `root / "whole"` and `root / "parts"`.
    """
    config = resolve_config(settings | {"log_every": 1, "checkpoint.keep_weights": True})
    whole, curve = finish(config, root / "whole")
    for step in steps:
        interrupt(config, root / "parts", step)
    parts, same_curve = finish(config, root / "parts")
    assert (parts.metrics, same_curve, parts.attempts) == (whole.metrics, curve, 1 + len(steps))
    assert parts.items_digest == whole.items_digest != ""
    files = [Store(root / name).files(whole.key) for name in ("whole", "parts")]
    assert files[0].test_items.read_bytes() == files[1].test_items.read_bytes()
    weights, same_weights = (load_weights(one)[0] for one in files)
    assert weights.keys() == same_weights.keys()
    assert all(torch.equal(weights[name], same_weights[name]) for name in weights)
    return whole, curve
