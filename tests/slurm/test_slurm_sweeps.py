"""Sweeps on a real SLURM (`tests/slurm/run`): their ordinary life, disturbances, missing parts."""

import contextlib
import json
import os
import re
import shutil
import signal
import time

import pytest

from htbench.harness.errors import EXIT_USAGE
from htbench.harness.store import Store
from htbench.harness.store.points import read_points
from htbench.harness.system import slurm
from htbench.sweeps.cluster.submit import shorten_check
from tests.helpers import waiting
from tests.helpers.command import Htbench
from tests.helpers.on_cluster import (
    FEW,
    LONG,
    NODES,
    PAIR,
    accepted,
    ask,
    attempt,
    attempts,
    calm,
    cluster,
    ended_as,
    finish,
    held,
    hold,
    let_go,
    owner,
    partition,
    processes,
    queue,
    run_folders,
    sbatch_that_kills_its_caller,
    send,
    site,
    submit,
    submitted,
    wait_for,
)
from tests.helpers.sweeping import results

pytestmark = pytest.mark.slurm
__all__ = ["calm", "cluster", "held", "site"]  # fixtures

# Fourteen runs with a GPU, so three arrays on a cluster whose arrays have six tasks, and four without.
SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 20, batch_size: 16, checkpoint.every_steps: 5, log_every: 2}
seeds: [0, 1]
blocks:
  - name: gpu
    set: {optimizer.name: sgdm, device: cpu}  # the GPUs of the cluster are none
    space: {optimizer.lr: {low: 0.01, high: 0.1, log: true, num: 7}}
    resources: {gpus_per_node: 1}
  - {name: cpu, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.15, 0.2]}}
resources: {timeout_min: 20, mem: 500M}
"""


# --- the ordinary life of a sweep ---


@pytest.mark.short
def test_a_sweep_in_arrays_once_and_extended(site, write_spec, tmp_path):
    spec = write_spec(SPEC)
    text = site("sweep", "submit", "--dry-run", spec).stdout
    assert not site.root.exists(), "a dry run writes nothing"

    assert accepted(site, spec) == 18
    sizes = [len(row["points"]) for row in submitted(site.root, "tiny") if "points" in row]
    assert sizes == [6, 6, 2, 4], "by resource class, at most MaxArraySize tasks"
    assert accepted(site, spec) == 0, "all are in the queue or at work"
    files = sorted(site.root.glob("sweeps/tiny/logs/*/submission.sh"))
    words = "|".join(file.parent.name for file in files)
    planned = re.split(r"# --- tiny, array \d; .* ---\n", text)[1:]
    sent = [shorten_check(re.sub(words, "0123456789", file.read_text())) for file in files]
    assert sorted(one.strip() for one in planned) == sorted(one.strip() for one in sent)

    finish(site, spec, "tiny")
    assert set(attempts(site.root).values()) == {1} and len(attempts(site.root)) == 18
    # All nodes had their share.
    wait_for(lambda: set(NODES) <= set(ask("sacct", "-n", "-X", "-P", "--format=NodeList").split()))
    records = Store(site.root).records(attempts(site.root)).values()
    (snapshot,) = (site.root / "code").iterdir()
    assert {record.environment["code"] for record in records} == {snapshot.name}
    here = Htbench(tmp_path / "here")
    assert here("sweep", "run", spec).returncode == 0
    assert results(site.root) == results(here.root), "where a run is trained doesn't matter"

    spec.write_text(SPEC.replace("0.2]", "0.2, 0.3]"))
    assert accepted(site, spec) == 2, "two seeds of one new value"
    finish(site, spec, "tiny")
    assert set(attempts(site.root).values()) == {1} and len(attempts(site.root)) == 20


def test_two_sweeps_that_want_the_same_runs_submit_them_once(site, write_spec, held):
    specs = [write_spec(FEW), write_spec(FEW.replace("name: few", "name: other"), "other.yaml")]
    both = [site.start("sweep", "submit", spec) for spec in specs]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted("3 in the queue already" in out for out in outputs) == [False, True]
    assert len(queue()) == 3


def test_a_block_is_submitted_cancelled_and_paid_for_by_its_name(site, write_spec, held):
    two = "  - {name: adamw, set: {optimizer.name: adamw}, space: {optimizer.lr: [0.001, 0.01]}}\nresources:"
    spec = write_spec(FEW.replace("resources:", two).replace("timeout_min: 20", "cpus_per_task: 1"))
    assert accepted(site, spec, "--block", "adamw") == 2
    assert accepted(site, spec) == 3
    names = ask("squeue", "-h", "-r", "-o", "%j").split()
    assert sorted(name.split(".")[1] for name in names) == ["adamw"] * 2 + ["sgdm"] * 3
    assert "3 jobs cancelled" in site("sweep", "cancel", spec, "--block", "sgdm").stdout
    wait_for(lambda: len(queue()) == 2)
    partition("UP")
    wait_for(lambda: not queue())
    blocks = json.loads(site("sweep", "status", spec, "--json").stdout)
    spent = {block["block"]: block["spent"] for block in blocks}
    assert spent["sgdm"]["core_hours"] == 0
    walls = [attempt(folder)["ended"] - attempt(folder)["began"] for folder in site.root.glob("runs/*/*")]
    assert abs(spent["adamw"]["core_hours"] * 3600 - sum(walls)) <= 2, "a record tells whole seconds"
    shown = site("sweep", "status", spec).stdout
    assert shown.startswith("few ") and re.search(r"spent \S+ core-seconds", shown)


def test_what_slurm_refuses_is_told_in_its_words(site, write_spec):
    spec = write_spec(FEW.replace("timeout_min: 20", "partition: nowhere"))
    refused = submit(site, spec)
    assert refused.returncode == EXIT_USAGE
    assert "invalid partition specified: nowhere" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    spec.write_text(FEW)
    assert accepted(site, spec) == 3


# --- disturbances ---


def test_warned_requeued_killed_and_cancelled_runs_end_with_the_same_numbers(site, write_spec, calm):
    spec = write_spec(LONG)
    assert accepted(site, spec) == 4
    job = submitted(site.root, "few")[1]["job"]
    folders = run_folders(site.root, "few")
    hold(*folders)
    ask("scancel", "--signal=USR2", f"{job}_0")  # as SLURM does before the time limit
    ask("scontrol", "requeue", f"{job}_1")  # as a preemption without a warning does
    send(folders[2], signal.SIGKILL)
    ask("scancel", f"{job}_3")
    let_go(folders[0], folders[1], folders[3])
    wait_for(lambda: set(queue()) == {f"{job}_0", f"{job}_1"})
    assert accepted(site, spec) == 2, "the requeued ones are in the queue"
    finish(site, spec, "few")
    assert list(attempts(site.root).values()) == [2, 2, 2, 2]
    outcomes = [attempt(folder)["outcome"] for folder in folders]
    assert [outcome and outcome["reason"] for outcome in outcomes] == ["stopped", "stopped", None, "stopped"]
    logs = [(folder / "log.txt").read_text() for folder in folders]
    assert all("going on from step" in log for log in logs)
    assert results(site.root, "few") == calm


def test_cancelled_and_submitted_at_once_every_run_has_a_job(site, write_spec, calm):
    """The cancelled jobs still save, and their requeued neighbour comes back by itself."""
    spec = write_spec(LONG)
    assert accepted(site, spec) == 4
    job = submitted(site.root, "few")[1]["job"]
    folders = run_folders(site.root, "few")
    hold(*folders)
    ask("scontrol", "requeue", f"{job}_3")
    ask("scancel", *(f"{job}_{n}" for n in range(3)))  # `sweep cancel` would take the requeued one along
    again = submit(site, spec)
    assert "3 submitted, 1 in the queue already" in again.stdout, again.stdout + again.stderr
    for folder in folders:
        with contextlib.suppress(KeyError):  # on a busy machine SLURM's KillWait of five seconds is over
            let_go(folder)
    wait_for(lambda: not queue())
    assert accepted(site, spec) == 0, "no run was left without a job"
    finish(site, spec, "few")
    assert list(attempts(site.root).values()) == [2, 2, 2, 2]
    assert results(site.root, "few") == calm


# SLURM may send its warning a minute early: 40 to 100 s after the start.
ENDLESS = """
name: few
base: {task: digits, model: resnet-nano, steps: 1000000, divergence.patience: 1000000, batch_size: 16}
blocks:
  - {name: endless, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.02, 0.1]}}
resources: {timeout_min: 2, signal_delay_s: 20}
"""


def test_before_the_time_limit_runs_are_saved_and_their_jobs_queued_again(site, write_spec):
    spec = write_spec(ENDLESS)
    assert accepted(site, spec) == 2
    jobs = set(queue())
    folders = run_folders(site.root, "few")
    assert len(jobs) == 2 and len(folders) == 2
    wait_for(lambda: all((folder / "attempts" / "2.json").exists() for folder in folders))
    assert set(queue()) == jobs and accepted(site, spec) == 0
    wait_for(lambda: all("going on from step" in (folder / "log.txt").read_text() for folder in folders))
    for folder in folders:
        first, second = attempt(folder), attempt(folder, 2)
        assert first["outcome"]["reason"] == "stopped"
        assert first["owner"]["job"] == second["owner"]["job"]
        assert [one["owner"]["restart"] or "0" for one in (first, second)] == ["0", "1"]
        assert second["began"] - first["began"] > 40, "it was the time limit"
    logs = "".join(path.read_text() for path in site.root.glob("sweeps/few/logs/*/*.out"))
    assert logs.count("stopped at step") >= 2
    assert "2 jobs cancelled" in site("sweep", "cancel", spec).stdout
    wait_for(lambda: not queue())
    rows = json.loads(site("sweep", "status", spec, "--json").stdout)
    assert sum(row["waiting"] for row in rows) == 2, "saved, and nobody is at it"


def test_a_warning_in_the_first_second_is_kept(site, write_spec):
    """No handler is set yet; the signal killed the job, and its run waited for the next `submit`."""
    spec = write_spec(FEW.replace("[0.03, 0.1, 0.2]", "[0.1]"))
    assert accepted(site, spec) == 1
    (job,) = queue()
    waiting.wait_for(lambda: processes(site), 120, every=0.005)  # a moment later it has loaded nothing
    ask("scancel", "--signal=USR2", job)
    wait_for(lambda: not queue())
    (folder,) = run_folders(site.root, "few")
    assert [owner(folder)[name] for name in ("job", "restart")] == [job, "1"], "the same job came back"
    assert (folder / "record.json").exists() and accepted(site, spec) == 0


@pytest.mark.parametrize("moment", ["submit.before", "sbatch", "submit.after"])
def test_a_submitter_killed_halfway_submits_each_point_once(site, write_spec, tmp_path, moment):
    spec = write_spec(PAIR)
    where = sbatch_that_kills_its_caller(tmp_path) if moment == "sbatch" else {"HTBENCH_CRASH": moment}
    assert submit(site, spec, **where).returncode == -signal.SIGKILL
    assert accepted(site, spec) == (2 if moment == "submit.before" else 0)
    finish(site, spec, "few")
    assert list(attempts(site.root).values()) == [1, 1]
    intents = [row for row in submitted(site.root, "few") if "points" in row]
    assert len(intents) == (2 if moment == "submit.before" else 1), (
        "the jobs in the queue were found and used"
    )


@pytest.mark.parametrize(("answer", "told"), [("", 2), (">/dev/null", 0)], ids=["number", "no word"])
def test_an_sbatch_that_fails_after_the_jobs_are_queued_submits_them_once(
    site, write_spec, tmp_path, answer, told
):
    script = tmp_path / "sbatch"
    script.write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@" {answer}\nexit 1\n')
    script.chmod(0o755)
    spec = write_spec(PAIR)
    first = submit(site, spec, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert ("2 submitted" in first.stdout) == bool(told), first.stderr
    if not told:
        assert first.returncode == EXIT_USAGE and "2 jobs of 'few' may be in the queue" in first.stderr
        assert len(first.stderr.strip().splitlines()) == 1
    assert accepted(site, spec) == 0, "they are found, and get what they wait for"
    finish(site, spec, "few")
    assert list(attempts(site.root).values()) == [1, 1]
    assert len([row for row in submitted(site.root, "few") if "points" in row]) == 1


# --- when parts are missing ---


def test_a_node_without_the_gpus_that_it_has_promised_trains_nothing(site, write_spec):
    spec = write_spec(PAIR.replace("timeout_min: 20", "timeout_min: 20, gpus_per_node: 1"))
    assert accepted(site, spec) == 2
    wait_for(lambda: not queue())
    logs = [file.read_text() for file in site.root.glob("sweeps/few/logs/*/*_log.out")]
    nodes = [re.search(r"^htbench: Node (\S+) shows 0 of 1 GPUs", log, re.MULTILINE)[1] for log in logs]
    assert len(nodes) == 2 and set(nodes) <= set(NODES)
    (row,) = json.loads(site("sweep", "status", spec, "--json").stdout)
    assert row["waiting"] == 2
    shown = site("sweep", "status", spec).stdout
    for node in set(nodes):
        said = f"few: {nodes.count(node)} waiting runs stopped before: Node {node} shows 0 of 1 GPUs"
        assert said in shown
    spec.write_text(PAIR)
    assert accepted(site, spec) == 2


def test_a_dead_controller_is_told_and_nothing_is_lost(site, cluster, write_spec):
    spec = write_spec(PAIR)
    partition("DOWN")
    assert accepted(site, spec) == 2
    cluster("stop-controller")
    try:
        asked = site("sweep", "plan", spec, "--no-measure", "--test-only")
        assert asked.returncode == EXIT_USAGE and "SLURM does not answer" in asked.stderr
        plan = site("sweep", "plan", spec, "--no-measure")
        assert plan.returncode == 0 and "to run; 2 runs" in plan.stdout, plan.stderr
        spec.write_text(PAIR.replace("0.1]", "0.1, 0.2]"))
        dead = submit(site, spec)
        assert dead.returncode == EXIT_USAGE and "SLURM does not answer" in dead.stderr
        assert len(dead.stderr.strip().splitlines()) == 1
        began = time.monotonic()
        status = site("sweep", "status", spec)
        assert status.returncode == 0 and "the queue is left out: SLURM does not answer" in status.stderr
        assert time.monotonic() - began < 30
    finally:
        cluster("start-controller")
        partition("UP")
    assert accepted(site, spec) == 1
    finish(site, spec, "few")
    assert len(read_points(site.root, "few")) == 3


def test_jobs_with_the_longest_name_are_found_again(site, held, write_spec):
    """Names of jobs end with the word by which they are found, and `squeue` shows so many bytes of them."""
    name = "a" + "ä" * 63
    text = LONG.replace("name: few", f"name: {name}").replace("name: sgdm, set", f"name: {'ö' * 47}, set")
    space = "space: {optimizer.weight_decay: [0.000123456789], optimizer.momentum: [0.912345], optimizer."
    text = text.replace("space: {optimizer.", space).replace("[0.03, 0.1, 0.2, 0.3]", "[0.125, 0.225]")
    spec = write_spec(f"{text}seeds: [1234567890123]\n")
    assert accepted(site, spec) == 2
    assert accepted(site, spec) == 0, "they wait"
    partition("UP")
    folders = run_folders(site.root, name)
    hold(*folders)
    word = submitted(site.root, name)[0]["submission"]
    assert [job.name for job in slurm.queue().values()] == [f"{name}.{'ö' * 40}.{word}"] * 2
    assert accepted(site, spec) == 0, "they run"
    jobs = [owner(folder)["job"] for folder in folders]
    let_go(*folders)
    finish(site, spec, name)
    assert [ended_as(job) for job in jobs] == ["COMPLETED"] * 2, "the data base of jobs takes them, too"


def test_jobs_run_nothing_that_was_altered_after_they_were_submitted(site, held, write_spec):
    """A line planted in the snapshot ran, and the record named the clean code."""
    spec = write_spec(PAIR)
    assert accepted(site, spec) == 2
    (code,) = (site.root / "code").iterdir()
    file = code / "htbench" / "sweeps" / "run" / "execute.py"
    kept = file.read_text()
    file.write_text(f"{kept}\nimport pathlib; pathlib.Path({str(site.root / 'ran')!r}).touch()\n")
    partition("UP")
    wait_for(lambda: not queue())
    assert not (site.root / "ran").exists() and not (site.root / "runs").exists()
    assert "'htbench/sweeps/run/execute.py' in" in site("sweep", "status", spec).stdout
    refused = submit(site, spec)
    assert refused.returncode == EXIT_USAGE and f"'{file}' is not what was copied there" in refused.stderr
    shutil.rmtree(code)
    assert accepted(site, spec) == 2
    finish(site, spec, "few")


# --- a search in rounds ---

REFINE = """
name: rounds
base: {task: digits, model: resnet-nano, steps: 10, batch_size: 16, log_every: 5}
search: {mode: refine, trials: 8}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.05, 0.1, 0.2]}}
  - {name: adamw, set: {optimizer.name: adamw}, space: {optimizer.lr: [0.001, 0.002, 0.004]}}
replicate: {seeds: 2}
resources: {timeout_min: 20, mem: 500M}
"""


def test_a_refining_search_goes_on_by_itself_after_one_submit(site, write_spec, tmp_path):
    spec = write_spec(REFINE)
    assert accepted(site, spec) == 6, "the first round"
    here = Htbench(tmp_path / "here")
    assert here("sweep", "run", spec).returncode == 0
    there = results(here.root, "rounds")
    wait_for(lambda: not queue() and results(site.root, "rounds") == there)
    rows = json.loads(site("sweep", "status", spec, "--json").stdout)
    assert all(row["queued"] == 0 and row["rounds"]["tried"] <= 8 for row in rows) and len(rows) == 2
    assert set(attempts(site.root).values()) == {1} and accepted(site, spec) == 0
