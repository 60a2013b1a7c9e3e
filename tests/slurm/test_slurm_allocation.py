"""Several runs in one allocation: `htbench sweep run FILE --workers N` in a script of the user's own."""

import shlex

import pytest

from htbench.harness.store import Store
from htbench.harness.store.points import read_points
from tests.helpers.command import HTBENCH
from tests.helpers.on_cluster import (
    LONG,
    ask,
    attempt,
    attempts,
    calm,
    cluster,
    ended_as,
    owner,
    queue,
    site,
    wait_for,
)
from tests.helpers.sweeping import results

pytestmark = pytest.mark.slurm
__all__ = ["calm", "cluster", "site"]  # fixtures


def allocate(site, spec):
    """Submit the script of docs/slurm.md; returns the number of its job."""
    command = shlex.join([*HTBENCH, "sweep", "run", str(spec), "--workers", "2", "--root", str(site.root)])
    words = ("--parsable", "--ntasks=1", "--cpus-per-task=2", "--time=20", "--requeue", "--signal=TERM@60")
    out = site.root.parent / "node.out"
    return ask("sbatch", *words, f"--output={out}", "--open-mode=append", f"--wrap=srun {command}").strip()


def begun(site):
    """The folders of the runs that have a checkpoint, once there are two."""
    wait_for(lambda: (site.root / "sweeps" / "few" / "points.jsonl").exists())
    folders = [Store(site.root).run_folder(point.key) for point in read_points(site.root, "few")]
    wait_for(lambda: sum((folder / "checkpoint.pt").exists() for folder in folders) >= 2)
    return [folder for folder in folders if (folder / "checkpoint.pt").exists()]


@pytest.mark.short
def test_runs_in_one_allocation_are_saved_and_go_on_with_the_next(site, write_spec, calm):
    spec = write_spec(LONG)
    job = allocate(site, spec)
    first = begun(site)
    assert {owner(folder)["job"] for folder in first} == {job}
    ask("scancel", "--signal=TERM", job)  # as SLURM does before the time limit
    wait_for(lambda: not queue())
    assert [attempt(folder)["outcome"]["reason"] for folder in first] == ["stopped"] * 2
    again = allocate(site, spec)
    wait_for(lambda: not queue())
    assert ended_as(again) == "COMPLETED"
    assert sorted(attempts(site.root).values()) == [1, 1, 2, 2] and results(site.root, "few") == calm


def test_an_allocation_that_is_queued_again_goes_on(site, write_spec, calm):
    spec = write_spec(LONG)
    job = allocate(site, spec)
    begun(site)
    ask("scontrol", "requeue", job)  # as SLURM does with a preempted job
    wait_for(lambda: not queue())
    assert ended_as(job) == "COMPLETED" and results(site.root, "few") == calm
