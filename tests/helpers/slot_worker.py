"""A worker of a search without training: a process of its own, quick to start and to kill.

The made-up runs go the whole way of true ones: slot, claim, reports, record, tell.
"""

import dataclasses
import json
import math
import os
import random
import signal
import traceback

import numpy as np

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import to_settings
from htbench.harness.errors import PrunedError, RunFailedError
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Reason, Store, items
from htbench.harness.store.curve import MetricsFile
from htbench.harness.store.items import TestItems
from htbench.harness.store.points import filled, read_points
from htbench.harness.store.record import RunRecord
from htbench.harness.system.atomic import append_line, locked
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.plan.planned import state
from htbench.sweeps.run.execute import execute
from tests.helpers.nfs_client import Client, Server


def accuracy(config, step):
    """Rises with the steps, the more so the nearer lr is to 0.01."""
    best = math.exp(-((math.log10(config.optimizer.lr) + 2) ** 2))
    return best * (1 - 0.5 ** (step / 9))


def made_up(steps):
    """What stands in for training; writes a line into `trained.jsonl` per run that it makes."""

    def train(config, store, monitor):
        key = run_key(config)
        claim = store.claim(key, "", monitor.study)
        if not isinstance(claim, Attempt):
            if claim.record is None:
                raise RunFailedError(key)
            return claim.record
        status, step = "completed", 0
        with MetricsFile(claim.files.metrics, 0) as curve:
            try:
                for step in [rung for rung in (3, 9, 27) if rung < steps] + [steps]:
                    figures = {"val_accuracy": accuracy(config, step), "val_loss": 1.0}
                    curve.add(step, figures)
                    if step < steps:
                        monitor.report(step, figures)
            except PrunedError:
                status = "pruned"
        with locked(store.root / ".trained.lock"):
            append_line(store.root / "trained.jsonl", {"key": key, "steps": step, "status": status})
        figures = figures if status == "completed" else {}
        ends = [monitor.study] if status == "pruned" else []
        config = {"task": config.task, "settings": json.loads(json.dumps(to_settings(config)))}
        record = RunRecord(key, config, Status(status), figures, step, 0.0, None, 0, {}, claim.number, {})
        record.pruned_by.extend(ends)
        if status == "completed":
            kept = TestItems(np.ones(1), np.ones(1), np.zeros(1), None, "0" * 16)
            items.write(claim.files.test_items, kept)
            scored = {"test_items": 1, "test_tokens": 1, "items_digest": kept.digest}
            record = dataclasses.replace(record, **scored)
        return claim.finish(record)

    return train


class Worker:
    """A process that works on all slots, forked from this one.

    Args:
        root: the store.
        sweep: its name.
        steps: length of a run.
        crash: the crash point where it dies.
        in_order: whether it takes the slots as they come; else each worker has an order of its own, as the
            jobs of an array would.
        retry: whether it also tries runs again that were killed twice before a checkpoint, as the command
            `sweep retry` does; made-up runs have no checkpoints.
        nfs: whether it is on a node of its own and sees the store over NFS.
    """

    def __init__(self, root, sweep="tiny", steps=81, crash="", in_order=False, retry=False, nfs=False):
        self.pid = os.fork()
        if self.pid:
            return
        status = 1
        try:
            os.setsid()  # a crash point takes the whole process group
            os.environ["HTBENCH_CRASH"] = crash
            random.seed()
            if nfs:
                Client(Server(root), seconds=2).__enter__()  # runs take milliseconds
            work(root, sweep, steps, in_order, retry)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def wait(self):
        """The exit status, negative if a signal ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self):
        """As when its node goes down; False if it had ended before."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL


def work(root, sweep, steps, in_order, retry):
    """Go through the slots until all have ended."""
    store = Store(root)
    left = [point for point in read_points(root, sweep) if point.slot]
    if not in_order:
        random.shuffle(left)
    while left:
        for point in left:
            if not _ended(store, point, retry):
                execute(root, point, Monitor(), train=made_up(steps))
        left = [point for point in left if not _ended(store, point, retry)]


def _ended(store, point, retry):
    point = filled(store.root, point)
    found = state(store, point)
    if found.status is Status.FAILED:
        assert retry and found.reason is Reason.KILLED, found.message
        store.reset_failure(point.key)
    return found.status.has_ended
