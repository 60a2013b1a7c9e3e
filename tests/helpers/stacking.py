"""Runs that are trained as one stack, a thread each, as a worker of `sweep run` does it."""

import threading

from htbench.harness.config.key import resolved
from htbench.harness.store import Store
from htbench.harness.train.monitor import Monitor
from htbench.harness.train.run import run
from htbench.harness.train.stack import Stack


def train_together(configs, root, monitors=None):
    """Each run's record, or the error that ended it."""
    stack, ends = Stack(len(configs)), [None] * len(configs)
    monitors = monitors or [Monitor() for _ in configs]

    def work(number):
        with stack.joined():
            try:
                key = resolved(configs[number])
                ends[number] = run(key, Store(root), monitors[number], make_learner=stack.learner)
            except Exception as error:
                ends[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(configs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends
