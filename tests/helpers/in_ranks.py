"""Shared by the tests of runs on several processes: real ones, forked from a server that has torch loaded."""

import itertools
import os
import signal
import sys

import pytest
import torch

from htbench.harness.config import parts
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.data.text import TextTask
from htbench.harness.errors import PrunedError
from htbench.harness.parallel.group import Group
from htbench.harness.parallel.joining import is_main
from htbench.harness.parallel.overlap import GradientSum
from htbench.harness.parallel.sharding import Shards
from htbench.harness.store import Store
from htbench.harness.store import curve as metrics
from htbench.harness.store.points import SEARCH, Point
from htbench.harness.train import learner
from htbench.harness.train.learner import Learner
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.run.execute import EXIT_DONE, execute
from tests.helpers import prepared, waiting
from tests.helpers.in_group import end, start_ranks

LM = {
    "task": "pydocs",
    "model": "llama-nano",
    "steps": 8,
    "batch_size": 16,
    "log_every": 3,
    "optimizer.name": "adamw",
    "optimizer.lr": 4e-3,
}


def start(size, settings, root, trouble="", step=0):
    """Begin a run on `size` processes. The one that `trouble` is for meets it once `step` updates are made.

    What they say is in `said-<rank>`, the signals they know of in `signals-<rank>`.
    """
    return start_ranks(size, work, settings, root, trouble, step)


def codes(ranks):
    return [process.exitcode for process in ranks.processes]


def wait_for(path, ranks):
    def there():
        assert path.exists() or ranks.poll() is None, told()
        return path.exists()

    def told():
        return f"no {path.name}, but {codes(ranks)}"

    waiting.wait_for(there, told=told)


def folder(settings, root):
    return Store(root).run_folder(run_key(resolve_config(settings)))


def result(settings, root):
    """Record and curve of a run that has ended."""
    record = Store(root).record(run_key(resolve_config(settings)))
    assert record is not None
    return record, metrics.read(folder(settings, root) / "metrics.jsonl")


def together(size, settings, root, trouble=""):
    assert end(start(size, settings, root, trouble)) == EXIT_DONE
    return result(settings, root)


def assert_close(one, other, rel=1e-4):
    """Two runs that differ in the order of float32 sums."""
    assert [row.keys() for row in one[1]] == [row.keys() for row in other[1]]
    for mine, yours in zip(one[1], other[1], strict=True):
        assert mine == pytest.approx(yours, rel=rel)
    assert one[0].metrics == pytest.approx(other[0].metrics, rel=rel)


# --- in the processes ---


def work(settings, root, trouble, step):
    torch.set_num_threads(1)
    prepared.share()
    rank = int(os.environ.get("RANK", 0))
    monitor = Monitor()
    if trouble == "stop the last" and not is_main():
        monitor.progress = lambda now: setattr(monitor, "stop_requested", now >= step)
    elif trouble == "prune":
        monitor.report = lambda now, figures: prune(now, step)
    elif trouble == "no memory for the last" and not is_main():
        Learner.update = out_of_memory(Learner.update, lambda call, now: now == step)
    elif trouble == "little memory for the last" and not is_main():
        TextTask.loss = out_of_memory(TextTask.loss, lambda call, model, batch: len(batch.inputs) > step)
    elif trouble == "no more memory for the last" and not is_main():
        TextTask.loss = out_of_memory(TextTask.loss, lambda call, *_: call == step)
    elif trouble == "killed in the second gather" and not is_main():
        Shards.state_dict = killed_at_the_second(Shards.state_dict)
    elif trouble == "overlap":
        learner.GradientSum = lambda model, group, overlap: GradientSum(model, group, overlap=True)
    parts.allow(parts.named(settings))
    point = Point("tiny", "only", SEARCH, run_key(resolve_config(settings)), settings)
    status = execute(root, point, monitor, lambda error: (root / f"said-{rank}").write_text(str(error)))
    (root / f"signals-{rank}").write_text(" ".join(str(int(number)) for number in monitor.signals))
    sys.exit(status)


def prune(now, step):
    assert is_main(), "only the leader has a study"
    if now >= step:
        raise PrunedError(f"enough at step {now}")


def out_of_memory(proper, lacks):
    """The method; at calls for which `lacks(number, *arguments)` there is no memory for it."""
    numbers = itertools.count(1)

    def method(self, *arguments):
        if lacks(next(numbers), *arguments):
            raise torch.OutOfMemoryError("a made-up lack of memory")
        return proper(self, *arguments)

    return method


def killed_at_the_second(proper):
    calls = []

    def state_dict(self):
        calls.append(self)
        if len(calls) == 2:
            Group.to_main = killed_at_the_third(Group.to_main)
        return proper(self)

    return state_dict


def killed_at_the_third(proper):
    calls = []

    def to_main(self, value, source):
        calls.append(source)
        if calls.count(self.rank) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return proper(self, value, source)

    return to_main
