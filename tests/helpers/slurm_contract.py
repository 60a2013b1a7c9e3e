"""What the code relies on in SLURM. The stand-in and the real one pass the same checks.

A check gets a `Site`: `begin` lets a job that waits begin, `folder` is for logs.
"""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from htbench.harness.store.owner import current_user
from htbench.harness.system import slurm
from htbench.sweeps.cluster import queue, sbatch
from htbench.sweeps.cluster.sbatch import RefusedError
from tests.helpers.waiting import wait_for

NAME = "contract.block.0123456789"


@dataclass
class Site:
    """A SLURM whose jobs wait until they are told to begin."""

    begin: Callable[[str], None]
    folder: Path

    def submit(self, *options, tasks=1, command="sleep 300"):
        """Submit a job or an array; its number."""
        array = [f"--array=0-{tasks - 1}"] if tasks > 1 else []
        log = f"--output={self.folder}/%j.log"
        lines = [f"#SBATCH {word}" for word in (f"--job-name={NAME}", log, "--requeue", *array, *options)]
        return sbatch.submit("\n".join(["#!/bin/bash", *lines, command, ""]))


def jobs():
    """Our jobs: id -> whether it waits."""
    return {id: job.pending for id, job in slurm.queue().items() if job.user == current_user()}


# --- submitting ---


def a_job_waits_under_its_number_and_its_name(site):
    number = site.submit()
    job = slurm.queue()[number]
    assert (job.name, job.user, job.array, job.task) == (NAME, current_user(), number, 0)
    assert job.pending and not job.over and job.restarts == 0 and job.reason


def the_tasks_of_an_array_are_numbered(site):
    number = site.submit(tasks=3)
    assert jobs() == {f"{number}_{task}": True for task in range(3)}
    assert [slurm.queue()[f"{number}_{task}"].task for task in range(3)] == [0, 1, 2]
    assert {job.array for job in slurm.queue().values()} == {number}


def what_is_only_tested_leaves_nothing(site):
    sbatch.test_only(f"#!/bin/bash\n#SBATCH --job-name={NAME}\ntrue\n")
    assert jobs() == {}


def a_refusal_is_told_and_leaves_nothing(site):
    with pytest.raises(RefusedError, match="invalid partition"):
        site.submit("--partition=nowhere")
    with pytest.raises(RefusedError, match="invalid partition"):
        sbatch.test_only("#!/bin/bash\n#SBATCH --partition=nowhere\ntrue\n")
    assert jobs() == {}


def a_site_tells_how_large_an_array_may_be(site):
    assert int(slurm.config()["MaxArraySize"]) > 3


# --- jobs at work ---


def a_job_that_has_begun_waits_no_more(site):
    number = site.submit(tasks=2)
    site.begin(f"{number}_0")
    assert jobs() == {f"{number}_0": False, f"{number}_1": True}
    row = slurm.fields(slurm.call("scontrol", "show", "job", "-o", f"{number}_0"))
    assert row["JobState"] == "RUNNING" and row["ArrayTaskId"] == "0"


def a_job_that_is_queued_again_keeps_its_number(site):
    number = site.submit()
    site.begin(number)
    slurm.call("scontrol", "requeue", number)
    wait_for(lambda: jobs().get(number), 60)
    assert slurm.queue()[number].restarts == 1


# --- cancelling ---


def one_task_is_cancelled_alone(site):
    number = site.submit(tasks=3)
    queue.scancel([f"{number}_1"])
    assert gone(f"{number}_1") and set(jobs()) == {f"{number}_0", f"{number}_2"}


def jobs_are_cancelled_by_their_name(site):
    site.submit(tasks=2)
    slurm.call("scancel", "--quiet", f"--name={NAME}")
    wait_for(lambda: jobs() == {}, 60)


def to_cancel_a_job_that_is_gone_is_no_error(site):
    number = site.submit()
    queue.scancel([number])
    assert gone(number)
    queue.scancel([number])


def gone(id):
    """Whether a job leaves the queue soon."""
    wait_for(lambda: id not in jobs(), 60)
    return True


CHECKS = [
    check
    for name, check in inspect.getmembers(sys.modules[__name__], inspect.isfunction)
    if check.__module__ == __name__ and name not in ("jobs", "gone")
]
