"""Random blows against a sweep on the cluster of `tests/slurm/run`."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter

from tests.helpers.on_cluster import (
    NODES,
    ask,
    attempts,
    identity,
    pids_here,
    queue,
    repeated_steps,
    submit,
    wait_for,
)

MINUTES = float(os.environ.get("HTBENCH_SOAK_MINUTES", 0))
SECONDS = MINUTES * 60 / 2 or 45  # of fire, for each sweep
CRASHES = ("", "submit.before", "submit.after")


class Fire:
    """Random blows against a sweep that is under way."""

    def __init__(self, site, cluster, spec, seed):
        self.site, self.cluster, self.spec = site, cluster, spec
        self.chance = random.Random(seed)
        self.happened = Counter()

    def burn(self, seconds):
        """Submit, kill the first task, then a blow every few seconds; of several kinds in any case."""
        until = time.monotonic() + seconds
        assert submit(self.site, self.spec).returncode == 0
        wait_for(self._tasks)
        self._strike("blow_kill_a_task")
        blows = [name for name in dir(self) if name.startswith("blow_")]
        while time.monotonic() < until or len(self.happened) < 4:
            time.sleep(self.chance.uniform(0.5, 4.0))
            self._strike(self.chance.choice(blows))

    def _strike(self, blow):
        with contextlib.suppress(subprocess.TimeoutExpired):  # SLURM is down, or slow after a blow
            getattr(self, blow)()
        self.happened[blow.removeprefix("blow_")] += 1

    def _job(self):
        jobs = [job for job, state in queue().items() if state == "RUNNING"]
        return self.chance.choice(jobs) if jobs else "0"

    def _tasks(self):
        """The processes that train."""
        files = self.site.root.glob("runs/*/*/attempts/*.json")
        owners = [json.loads(file.read_text())["owner"] for file in files]
        here = pids_here()
        return [here[one] for owner in owners if (one := identity(owner)) in here]

    def blow_requeue(self):
        ask("scontrol", "requeue", self._job())

    def blow_cancel(self):
        ask("scancel", self._job())

    def blow_warn(self):
        ask("scancel", "--signal=USR2", self._job())

    def blow_kill_a_task(self):
        if tasks := self._tasks():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.chance.choice(tasks), signal.SIGKILL)

    def blow_kill_a_job(self):
        """Its processes at once, without a word to its script."""
        ask("scancel", "--signal=KILL", self._job())

    def blow_restart_the_controller(self):
        self.cluster("stop-controller")
        self.cluster("start-controller")

    def blow_crash_the_daemons(self):
        self.cluster("crash-daemons")
        self.cluster("start-daemons")

    def blow_lose_a_node(self):
        self.cluster("lose-node", self.chance.choice(NODES))
        self.cluster("start-daemons")

    def blow_submit(self):
        submit(self.site, self.spec, "--retry", HTBENCH_CRASH=self.chance.choice(CRASHES))


def tell(name, fire, site):
    """What the log of a long soak says of one sweep."""
    tried = attempts(site.root)
    print(
        f"{name}: {len(tried)} runs in {sum(tried.values())} attempts, {sum(fire.happened.values())} blows "
        f"({', '.join(f'{n} {what}' for what, n in sorted(fire.happened.items()))}); "
        f"{repeated_steps(site.root)} steps repeated"
    )
