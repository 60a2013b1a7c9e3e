"""Sweeps under fire: whatever dies, submitting until done gives each point once, with the same numbers.

A minute in the tests; `make soak` goes on for HTBENCH_SOAK_MINUTES and prints what docs/cluster.md keeps.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter

import pytest

from tests.helpers.command import Htbench
from tests.helpers.on_cluster import (
    LONG,
    NODES,
    ask,
    attempts,
    cluster,
    finish,
    finish_search,
    identity,
    pids_here,
    queue,
    repeated_steps,
    site,
    submit,
    wait_for,
)
from tests.helpers.searching import SEARCH
from tests.helpers.sweeping import results

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "site"]  # fixtures

MINUTES = float(os.environ.get("HTBENCH_SOAK_MINUTES", 0))
SECONDS = MINUTES * 60 / 2 or 45  # of fire, for each of the two sweeps
CRASHES = ("", "submit.before", "submit.after")
LONG_SEARCH = (
    SEARCH.replace("steps: 8", "steps: 300")
    .replace("checkpoint.every_steps: 3, log_every: 2", "checkpoint.every_steps: 5, log_every: 5")
    .replace("evaluation.every: 2", "evaluation.every: 30")
    .replace("trials: 4", "trials: 8")
    + "resources: {timeout_min: 20}\n"
)
assert "steps: 300" in LONG_SEARCH and "trials: 8" in LONG_SEARCH and "every: 30" in LONG_SEARCH


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


def test_a_grid_under_fire_ends_as_an_undisturbed_one(site, cluster, write_spec, tmp_path):
    values = ", ".join(f"{0.001 * n:g}" for n in range(1, 1 + int(max(4, 4 * MINUTES))))
    spec = write_spec(LONG.replace("[0.03, 0.1, 0.2, 0.3]", f"[{values}]"))
    fire = Fire(site, cluster, spec, seed=0)
    fire.burn(SECONDS)
    finish(site, spec, "few", "--retry", failures=True)
    tell("grid", fire, site)
    calm = Htbench(tmp_path / "calm")
    assert calm("sweep", "run", spec, timeout=3600).returncode == 0
    assert results(site.root) == results(calm.root)
    assert len(fire.happened) >= 4 and sum(attempts(site.root).values()) > len(attempts(site.root))


def test_a_search_under_fire_has_each_trial_once(site, cluster, write_spec):
    spec = write_spec(LONG_SEARCH.replace("trials: 8", f"trials: {int(max(8, 8 * MINUTES))}"))
    fire = Fire(site, cluster, spec, seed=1)
    fire.burn(SECONDS)
    finish_search(site, spec, "--retry")
    tell("search", fire, site)
    assert len(fire.happened) >= 4 and sum(attempts(site.root).values()) > len(attempts(site.root))
