"""Plan, status and submit on a real SLURM (`tests/slurm/run`): its verdicts, its queue, whom it knows."""

import json
import os
import re
import shutil
import signal
import time

import pytest

from htbench.harness.errors import EXIT_USAGE
from tests.helpers.on_cluster import (
    FEW,
    LONG,
    NODES,
    PAIR,
    accepted,
    attempts,
    cluster,
    held,
    hold,
    let_go,
    owner,
    partition,
    queue,
    run_folders,
    sbatch_that_kills_its_caller,
    site,
    submit,
    submitted,
    wait_for,
)

pytestmark = pytest.mark.slurm
__all__ = ["cluster", "held", "site"]  # fixtures


def plan(site, spec, *words):
    began = time.monotonic()
    done = site("sweep", "plan", spec, "--no-measure", *words)
    assert time.monotonic() - began < 30
    return done


def lines(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# --- plan ---


def test_slurm_is_asked_whether_it_would_take_the_jobs(site, write_spec):
    spec = write_spec(FEW.replace("0.2]", "0.2, " + ", ".join(f"0.1{n}" for n in range(1, 6)) + "]"))
    answers = [line for line in lines(plan(site, spec, "--test-only")) if line.startswith("array")]
    assert len(answers) == 2, "six tasks and the rest"
    assert all(re.fullmatch(r"array \d: SLURM would take it, in partition gpu", line) for line in answers)
    (view,) = json.loads(plan(site, spec, "--test-only", "--json").stdout)
    assert len(view["sbatch"]) == len(view["answers"]) == 2
    assert not queue() and not site.root.exists()


def test_what_slurm_would_refuse_is_told_in_its_words(site, write_spec):
    wide = FEW.replace("steps: 20", "steps: 20, processes: 8")
    spec = write_spec(wide.replace("timeout_min: 20", "gpus_per_node: 8"))
    refused = plan(site, spec, "--test-only")
    assert refused.returncode == EXIT_USAGE and "; 3 runs" in refused.stdout
    assert "SLURM would refuse array 1 of 'few': " in refused.stderr
    assert "Requested node configuration is not available" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


# --- status ---


def test_runs_at_work_are_not_taken_for_left_by_what_stands_in_for_squeue(site, write_spec, tmp_path):
    """A proxy's page is no empty queue, and one that is empty does not outrank a fresh heartbeat."""
    script = tmp_path / "squeue"
    path = f"{tmp_path}:{os.environ['PATH']}"
    spec = write_spec(LONG.replace("0.1, 0.2, 0.3]", "0.1]").replace("steps: 400", "steps: 20000"))
    assert accepted(site, spec) == 2

    def running(**environment):
        done = site("sweep", "status", spec, "--json", **environment)
        (row,) = json.loads(done.stdout)
        return row["running"] == 2 and done.stderr

    wait_for(lambda: running() == "")
    script.write_text("#!/bin/sh\necho '<html><title>502 Bad Gateway</title></html>'\n")
    script.chmod(0o755)
    assert "SLURM's answer can't be read (squeue: '<html>" in running(PATH=path)
    done = submit(site, spec, PATH=path)
    assert done.returncode == EXIT_USAGE and done.stderr.count("\n") == 1 and "<html>" in done.stderr
    script.write_text(f'#!/bin/sh\n{shutil.which("squeue", path=os.environ["PATH"])} "$@" | head -n 1\n')
    assert running(PATH=path) == ""
    done = submit(site, spec, PATH=path)
    assert done.returncode == 0 and "submitted" not in done.stdout
    assert set(attempts(site.root).values()) == {1} and len(queue()) == 2
    assert "2 jobs cancelled" in site("sweep", "cancel", spec).stdout


def test_a_run_that_gives_no_sign_of_life_comes_first_with_its_node_and_its_job(site, write_spec):
    text = LONG.replace("[0.03, 0.1, 0.2, 0.3]", "[0.1, 0.2]").replace("steps: 400", "steps: 20000")
    spec = write_spec(text)
    assert accepted(site, spec) == 2
    first, second = run_folders(site.root, "few")
    hold(second)
    heartbeat, then = second / "attempts" / "1.json", time.time() - 140
    os.utime(heartbeat, (then, then))  # as if it had been held for so long
    wait_for((first / "checkpoint.pt").exists)
    shown = lines(site("sweep", "status", spec))
    at_work = [line for line in shown if line.startswith("running ")]
    where = f"on {owner(second)['host']}, job {owner(second)['job']}"
    assert len(at_work) == 2 and " lr 0.2 " in at_work[0]
    assert re.search(rf" {re.escape(where)}.*no sign of life for \d+ s$", at_work[0])
    assert any("(1 without a sign of life)" in line for line in shown)
    let_go(second)
    wait_for(lambda: "sign of life" not in site("sweep", "status", spec).stdout)
    assert "2 jobs cancelled" in site("sweep", "cancel", spec).stdout


# --- killed submitters ---


def test_submissions_of_killed_submitters_are_found_in_the_queue(site, write_spec, tmp_path, held):
    spec = write_spec(PAIR)
    assert submit(site, spec, HTBENCH_CRASH="submit.before").returncode == -signal.SIGKILL
    assert not queue()
    killed = submit(site, spec, **sbatch_that_kills_its_caller(tmp_path))
    assert killed.returncode == -signal.SIGKILL
    assert accepted(site, spec) == 0
    assert submitted(site.root, "few")[-1]["job"] in next(iter(queue()))
    partition("UP")
    wait_for(lambda: not queue())
    (row,) = json.loads(site("sweep", "status", spec, "--json").stdout)
    assert row["completed"] == 2, "the array that was found did its work"


# --- doctor ---


def test_doctor_runs_on_each_node_of_a_job(site, write_spec):
    text = FEW.replace("timeout_min: 20", "nodes: 2, mem: 500M").replace(
        "steps: 20", "steps: 20, processes: 4"
    )
    done = site("doctor", "--json", "--sbatch", write_spec(text))
    ((one,), log) = json.loads(done.stdout), done.stderr
    assert (done.returncode, one["level"], one["subject"]) == (0, "ok", "job"), log
    (node,) = re.match(
        r"job \d+ on node (\w+) \(few sgdm.*\) found no problem; its log is ", one["finding"]
    ).groups()
    assert node in NODES and len(re.findall(r"^ok +root ", log, re.MULTILINE)) == 2
    wait_for(lambda: not queue())
