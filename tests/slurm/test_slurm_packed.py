"""Jobs with several runs on a real SLURM: neighbours, time limits, searches."""

import json
import signal

import pytest

from tests.helpers.on_cluster import (
    FEW,
    LONG,
    accepted,
    ask,
    attempt,
    attempts,
    calm,
    cluster,
    ended_as,
    finish,
    finish_search,
    hold,
    let_go,
    owner,
    queue,
    run_folders,
    send,
    site,
    submit,
    submitted,
    wait_for,
)
from tests.helpers.searching import SEARCH
from tests.helpers.sweeping import results

pytestmark = pytest.mark.slurm
__all__ = ["calm", "cluster", "site"]  # fixtures

PACKED = "timeout_min: 20, runs_per_job: 4, runs_at_once: 4"


def test_a_killed_run_goes_on_in_its_job_and_its_neighbours_do_not_notice(site, write_spec, calm):
    spec = write_spec(LONG.replace("timeout_min: 20", PACKED))
    done = submit(site, spec)
    assert "4 runs in 1 job as job" in done.stdout
    (job,) = queue()
    folders = run_folders(site.root, "few")
    hold(*folders)
    send(folders[2], signal.SIGKILL)
    let_go(*(folder for folder in folders if folder != folders[2]))
    wait_for(lambda: not queue())
    assert list(attempts(site.root)[folder.name] for folder in folders) == [1, 1, 2, 1]
    assert {owner(folder)["job"] for folder in folders} == {owner(folders[2], 2)["job"]} == {job}
    assert ended_as(job) == "COMPLETED"
    finish(site, spec, "few")
    assert results(site.root, "few") == calm


def test_near_its_time_limit_a_job_saves_all_runs_and_comes_back_for_the_rest(site, write_spec):
    spec = write_spec(LONG.replace("timeout_min: 20", "timeout_min: 20, runs_per_job: 4, runs_at_once: 2"))
    assert accepted(site, spec) == 4
    (job,) = queue()
    folders = run_folders(site.root, "few")
    hold(*folders[:2])
    (row,) = json.loads(site("sweep", "status", spec, "--json").stdout)
    assert (row["running"], row["queued"]) == (2, 2), "the job has not come to the other two yet"
    ask("scancel", "--signal=USR2", job)  # as SLURM does before the time limit
    let_go(*folders[:2])
    wait_for(lambda: not queue())
    assert list(attempts(site.root)[folder.name] for folder in folders) == [2, 2, 1, 1]
    assert [attempt(folder)["outcome"]["reason"] for folder in folders[:2]] == ["stopped"] * 2
    assert {owner(folder, n)["restart"] for folder, n in zip(folders, (2, 2, 1, 1), strict=True)} == {"1"}
    finish(site, spec, "few")


def test_a_cancelled_job_saves_its_runs_and_the_next_submit_goes_on(site, write_spec):
    spec = write_spec(LONG.replace("steps: 400", "steps: 1500").replace("timeout_min: 20", PACKED))
    assert accepted(site, spec) == 4
    folders = run_folders(site.root, "few")
    wait_for(lambda: all((folder / "checkpoint.pt").exists() for folder in folders))
    assert "1 job cancelled" in site("sweep", "cancel", spec).stdout
    assert accepted(site, spec) == 4, "the new job waits until the old one has saved"
    finish(site, spec, "few")
    assert [attempt(folder)["outcome"]["reason"] for folder in folders] == ["stopped"] * 4
    assert set(attempts(site.root).values()) == {2}


def test_the_slots_of_a_search_are_filled_by_few_jobs(site, write_spec):
    spec = write_spec(SEARCH + "resources: {timeout_min: 20, runs_per_job: 3, runs_at_once: 2}\n")
    assert accepted(site, spec) == 4
    assert len(queue()) == 2
    finish_search(site, spec)
    assert set(attempts(site.root).values()) == {1}


def test_limits_and_arrays_count_jobs(site, write_spec):
    text = FEW.replace("[0.03, 0.1, 0.2]", "{low: 0.01, high: 0.2, num: 18}").replace("steps: 20", "steps: 2")
    spec = write_spec(text.replace("timeout_min: 20", "timeout_min: 20, runs_per_job: 2, submit_limit: 8"))
    done = submit(site, spec)
    assert "16 submitted, 2 left" in done.stdout
    assert [len(row["points"]) for row in submitted(site.root, "few") if "points" in row] == [12, 4]
    finish(site, spec, "few")
    assert set(attempts(site.root).values()) == {1} and len(attempts(site.root)) == 18
