"""A job with several runs: each is a run of its own, whatever becomes of its neighbours and of the job."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.errors import UsageError
from harness.store import Kind, Store
from harness.store.points import SEARCH, Point
from harness.system.squeue import Job
from sweeps.cluster import job_array, job_log, packed_job, snapshot, submissions, submit
from sweeps.cluster.submissions import Submission
from sweeps.spec.resources import Resources
from tests.helpers.job_process import JOB, modules_named
from tests.helpers.waiting import wait_for
from tests.helpers.warm import Command

LONG = {"steps": 400, "checkpoint.every_steps": 5, "log_every": 5}
PRINTS = (
    "import os, torch\nprint('sees', os.environ.get('CUDA_VISIBLE_DEVICES'))\nPrinting = torch.optim.SGD\n"
)
FAILS_ONCE = """
import os, torch
class Moody(torch.optim.SGD):
    def step(self, closure=None):
        if not os.path.exists('{mark}'):
            open('{mark}', "w").close()
            raise ValueError("not today")
        return super().step(closure)
"""


def points(tiny, number, **settings):
    configs = [tiny | settings | {"optimizer.lr": 0.01 * (n + 1)} for n in range(number)]
    return [Point("tiny", "only", SEARCH, run_key(resolve_config(one)), one) for one in configs]


def start(tmp_path, own, at_once=2, **environment):
    """The process of a job with these points, and the store."""
    logs = tmp_path / "logs"
    logs.mkdir(exist_ok=True)
    task = job_array.delayed_together(tmp_path / "store", snapshot.HOME, own, logs)
    assert modules_named(pickle.dumps(task)) == {"builtins", "submitit.core.utils"}
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\n[ $1 = show ] || echo "$@" >> {tmp_path}/called\n')
    scontrol.chmod(0o755)
    told = {"SLURM_JOB_ID": "8", "SLURMD_NODENAME": "n1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told |= {packed_job.AT_ONCE: str(at_once)} | environment
    words = ["-c", JOB, pickle.dumps(task).hex()]
    if "PYTHONPATH" in environment:  # only a fresh Python reads it
        process = subprocess.Popen([sys.executable, *words], env=os.environ | told, cwd=snapshot.HOME)
    else:
        process = Command(words, os.environ | told, snapshot.HOME)
    return process, Store(tmp_path / "store")


def pid(store, point):
    """That of the process which trains a run, once it has a checkpoint."""
    wait_for(store.files(point.key).checkpoint.exists)
    return store.attempt(point.key, store.last_attempt(point.key))["owner"]["pid"]


def ends(process):
    process.communicate(timeout=300)
    return process.returncode


def attempts(store, own):
    return [store.last_attempt(point.key) for point in own]


def kinds(store, own):
    return [store.state(point.key).kind for point in own]


@pytest.mark.slow
def test_runs_share_the_gpus_of_their_job_and_each_has_a_log(tmp_path, tiny, monkeypatch):
    (tmp_path / "printing.py").write_text(PRINTS)
    monkeypatch.syspath_prepend(tmp_path)
    own = points(tiny, 5, device="cpu", **{"optimizer.name": "printing:Printing"})
    path = f"{snapshot.HOME}:{tmp_path}"
    process, store = start(tmp_path, own, at_once=2, CUDA_VISIBLE_DEVICES="4,6", PYTHONPATH=path)
    assert ends(process) == 0
    assert kinds(store, own) == [Kind.FINISHED] * 5 and attempts(store, own) == [1] * 5
    logs = [job_log.of_run(tmp_path / "logs", "8", point.id) for point in own]
    told = [log.read_text().splitlines() for log in logs]
    assert all(lines[0].startswith("htbench: job 8 on node n1 starts at 1") for lines in told)
    assert {line for lines in told for line in lines if line.startswith("sees ")} == {"sees 4", "sees 6"}
    assert ends(start(tmp_path, own, PYTHONPATH=path)[0]) == 0
    assert attempts(store, own) == [1] * 5, "a job of which nothing is left ends"


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_and_its_neighbours_do_not_notice(tmp_path, tiny):
    own = points(tiny, 3, **LONG)
    process, store = start(tmp_path, own, at_once=3)
    os.kill(pid(store, own[1]), signal.SIGKILL)
    assert ends(process) == 0
    assert kinds(store, own) == [Kind.FINISHED] * 3 and attempts(store, own) == [1, 2, 1]
    assert store.attempt(own[1].key, 2)["start_step"] >= 5, "from its checkpoint"


@pytest.mark.slow
def test_a_run_that_a_person_stops_waits_for_the_next_job(tmp_path, tiny):
    own = points(tiny, 3, **LONG)
    process, store = start(tmp_path, own, at_once=2)
    os.kill(pid(store, own[0]), signal.SIGTERM)
    assert ends(process) == 1
    assert kinds(store, own) == [Kind.WAITING, Kind.FINISHED, Kind.FINISHED]
    assert attempts(store, own) == [1, 1, 1]
    assert ends(start(tmp_path, own)[0]) == 0 and attempts(store, own) == [2, 1, 1]


@pytest.mark.parametrize(("number", "requeues"), [(signal.SIGUSR2, True), (signal.SIGTERM, False)])
def test_a_job_that_is_told_to_end_saves_all_its_runs(tmp_path, tiny, number, requeues):
    own = points(tiny, 3, **LONG | {"steps": 3000})
    process, store = start(tmp_path, own, at_once=2)
    for point in own[:2]:
        pid(store, point)
    process.send_signal(number)
    assert ends(process) == 2
    assert kinds(store, own) == [Kind.WAITING] * 3 and attempts(store, own) == [1, 1, 0]
    outcomes = [store.attempt(point.key, 1)["outcome"]["reason"] for point in own[:2]]
    assert outcomes == ["stopped", "stopped"]
    called = tmp_path / "called"
    assert (called.read_text() if called.exists() else "") == ("requeue 8\n" if requeues else "")


@pytest.mark.slow
def test_runs_save_and_end_when_the_process_of_their_job_is_killed(tmp_path, tiny):
    own = points(tiny, 2, **LONG | {"steps": 3000})
    process, store = start(tmp_path, own, at_once=2)
    pids = [pid(store, point) for point in own]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    wait_for(lambda: not any(Path(f"/proc/{one}").exists() for one in pids))
    assert kinds(store, own) == [Kind.WAITING] * 2
    assert [store.attempt(point.key, 1)["outcome"]["reason"] for point in own] == ["stopped"] * 2


@pytest.mark.slow
def test_a_failure_that_a_person_resets_is_tried_again_by_its_job(tmp_path, tiny, monkeypatch):
    """`submit --retry` meets the job in the queue, so it submits no other."""
    (tmp_path / "moody.py").write_text(FAILS_ONCE.format(mark=tmp_path / "mark"))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "store" / "sweeps" / "tiny").mkdir(parents=True)
    first = points(tiny, 1, **{"optimizer.name": "moody:Moody"})
    own = first + points(tiny, 1, **LONG)
    process, store = start(tmp_path, own, PYTHONPATH=f"{snapshot.HOME}:{tmp_path}")
    wait_for(lambda: store.state(own[0].key).kind is Kind.FAILED)
    array = submissions.intend(store.root, "tiny", [point.id for point in own], {"runs_per_job": 2})
    taken = submit._taken(store, {"8": Job("8", "RUNNING", 0, "me", "None", array.name)}, own[:1])
    assert taken.keys() == {point.id for point in own}
    assert ends(process) == 0
    assert kinds(store, own) == [Kind.FINISHED] * 2 and attempts(store, own) == [2, 1]


@pytest.mark.slow
def test_a_job_ends_though_one_of_its_runs_is_at_work_elsewhere_or_fails(tmp_path, tiny):
    own = points(tiny, 3)
    elsewhere = Store(tmp_path / "store").claim(own[0].key, "")
    failing = points(tiny, 1, **{"batch_size": 10**9})[0]
    with elsewhere:
        process, store = start(tmp_path, [*own, failing])
        assert ends(process) == 1
        assert kinds(store, own) == [Kind.LIVE, Kind.FINISHED, Kind.FINISHED]
    assert attempts(store, own) == [1, 1, 1] and attempts(store, [failing]) <= [1]


@pytest.mark.slow
def test_on_a_node_without_its_gpus_no_run_of_a_job_begins(tmp_path, tiny, capfd):
    own = points(tiny, 3)
    told = {"CUDA_VISIBLE_DEVICES": "0", "HTBENCH_GPUS_PER_NODE": "2", "PYTHONPATH": str(snapshot.HOME)}
    process, store = start(tmp_path, own, **told)
    assert ends(process) == 1
    assert "htbench: Node n1 shows 1 of 2 GPUs that the job was promised" in capfd.readouterr().err
    assert kinds(store, own) == [Kind.WAITING] * 3 and attempts(store, own) == [0] * 3


# --- what such a job asks for ---


def test_a_job_asks_for_the_cores_of_all_runs_that_it_trains_side_by_side(tmp_path):
    one = Submission("s", "w", tuple("abcdefg"), runs_per_job=3)
    wants = Resources(runs_per_job=3, runs_at_once=2, cpus_per_task=4)
    text = job_array.text(tmp_path, tmp_path, one, wants, 2)
    for line in ("--array=0-2%3", "--ntasks-per-node=1", "--cpus-per-task=16"):
        assert f"#SBATCH {line}\n" in text
    assert f"export {packed_job.AT_ONCE}=2" in text and "--cpus-per-task 16" in text
    assert packed_job.AT_ONCE not in job_array.text(tmp_path, tmp_path, one, Resources(), 2)


@pytest.mark.parametrize(
    ("gpus", "per_gpu", "processes", "runs", "expected"),
    [(4, 1, 1, 8, 4), (4, 2, 1, 8, 8), (4, 2, 1, 6, 6), (4, 1, 2, 8, 2), (3, 1, 2, 8, 1), (0, 1, 1, 8, 1)],
)
def test_the_gpus_of_a_job_tell_how_many_runs_go_side_by_side(gpus, per_gpu, processes, runs, expected):
    wants = Resources(gpus_per_node=gpus, runs_per_gpu=per_gpu, runs_per_job=runs)
    wants.check(processes)
    assert wants.side_by_side(processes) == expected


@pytest.mark.parametrize(
    ("wants", "processes", "words"),
    [
        (Resources(runs_per_gpu=2), 1, "runs_per_gpu=2 needs a job with several runs; add runs_per_job"),
        (Resources(runs_at_once=2), 1, "runs_at_once=2 needs a job with several runs; add runs_per_job"),
        (Resources(runs_per_job=4, nodes=2), 2, "is for jobs on one node, not on nodes=2"),
        (Resources(runs_per_job=4, runs_per_gpu=2), 1, "runs_per_gpu=2 needs gpus_per_node"),
        (Resources(runs_per_job=4, runs_at_once=2, gpus_per_node=2), 1, "is for jobs without GPUs"),
        (Resources(runs_per_job=4, gpus_per_node=2), 4, "processes=4 does not suit gpus_per_node=2"),
        (Resources(runs_per_job=4, gpus_per_node=4, runs_per_gpu=2), 2, "have it alone"),
        (Resources(gpus_per_node=4), 1, "for several runs in a job add runs_per_job"),
    ],
)
def test_impossible_jobs_are_refused_in_a_sentence(wants, processes, words):
    with pytest.raises(UsageError, match=words):
        wants.check(processes)
