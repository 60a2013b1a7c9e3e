"""The command `htbench` in a process of its own, and the tiniest real run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.helpers.warm import Command

HTBENCH = [sys.executable, "-m", "htbench"]


# A real run on real data, about 10 ms per step: small enough to be trained dozens of times in the suite.
TINY = {
    "task": "digits",
    "model": "resnet-nano",
    "steps": 8,
    "batch_size": 16,
    "optimizer.name": "sgdm",
    "optimizer.lr": 0.1,
}


class Htbench:
    """The command in a process group of its own, so that a crash point can take the whole group down.

    Args:
        root: the store.
        cwd: the working folder.
        fresh: begin with a fresh Python, which takes seconds to import torch: for what is about imports, the
            start of processes, or output as it comes.
    """

    def __init__(self, root, cwd=None, fresh=False):
        self.root, self.cwd, self.fresh = Path(root), cwd, fresh

    def start(self, *words, crash=None, **environment):
        env = os.environ | {"HTBENCH_ROOT": str(self.root)} | environment
        if crash:
            env["HTBENCH_CRASH"] = crash
        words = [str(word) for word in words]
        if not self.fresh:
            return Command(words, env, self.cwd)
        return subprocess.Popen(
            [*HTBENCH, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=env,
            cwd=self.cwd,
            start_new_session=True,
        )

    def __call__(self, *words, timeout=300, **environment):
        process = self.start(*words, **environment)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)
