"""A job with several runs: each is a run of its own, and the job ends when it can do no more for them."""

import dataclasses
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Reason, Store, submissions
from htbench.harness.store.points import SEARCH, Point, sweep_folder
from htbench.harness.store.submissions import Submission
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.cluster import (
    job_array,
    job_log,
    sbatch,
    snapshot,
    submit,
)
from htbench.sweeps.cluster.job import PackedJob
from htbench.sweeps.cluster.queue import ORDER, closed_path
from htbench.sweeps.cluster.snapshot import Snapshot
from htbench.sweeps.cluster.submit import Array
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.run import schedule
from htbench.sweeps.spec import sweep_file
from htbench.sweeps.spec.resources import Resources
from tests.helpers.fake_slurm import FakeSlurm
from tests.helpers.job_process import order_words, srun_words
from tests.helpers.waiting import wait_for
from tests.helpers.warm import Command

JOB = "import sys; from htbench.sweeps.cluster import job; job.main(*sys.argv[1:])"
ENDLESS = {"steps": 100_000, "divergence.patience": 100_000, "checkpoint.every_steps": 5, "log_every": 5}
OWN = """
import os, pathlib, signal
import torch

if os.environ.get("DIES"):
    os.kill(os.getpid(), signal.SIGKILL)


class Sgd(torch.optim.SGD):
    def __init__(self, params, lr=0.1):
        print("sees", os.environ.get(os.environ.get("GPUS_IN", "CUDA_VISIBLE_DEVICES")))
        if pathlib.Path(__file__).with_name("fails").exists():
            raise ValueError("it was asked to fail")
        super().__init__(params, lr=lr)
"""


def points(settings, count):
    """So many runs that differ in their seeds."""
    all_settings = [settings | {"device": "cpu", "seed": seed} for seed in range(count)]
    return [Point("tiny", "only", SEARCH, run_key(resolve_config(one)), one) for one in all_settings]


@pytest.fixture
def own(tmp_path, tiny, monkeypatch):
    """Settings with an optimizer of the user's, which says what it sees and fails or dies if told to."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "own_sgd.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path / "parts")
    return tiny | {"optimizer.name": "own_sgd:Sgd"}


class Job:
    """The third task of array 8 with these runs; `scontrol` is a stand-in that says how the job ends."""

    def __init__(self, folder, runs, at_once=1, **environment):
        self.store, self.logs, self.runs = Store(folder / "store"), folder / "logs", runs
        self.called = folder / "called"
        self.logs.mkdir(exist_ok=True)
        (folder / "parts").mkdir(exist_ok=True)
        scontrol = folder / "scontrol"
        scontrol.write_text(f'#!/bin/sh\n[ $1 = show ] || echo "$@" >> {self.called}\n')
        scontrol.chmod(0o755)
        told = {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "2"}
        told |= {job_log.AT_ONCE: str(at_once), "PATH": f"{folder}:{os.environ['PATH']}"}
        given = order_words(self.store.root, snapshot.HOME, self.logs, runs, max(2, len(runs)))
        words = ["-c", JOB, *given]
        self.process = Command(words, os.environ | told | environment, folder / "parts")

    def folder(self, n):
        return self.store.run_folder(self.runs[n].key)

    def attempts(self):
        """How many each run has."""
        return [self.store.last_attempt(run.key) for run in self.runs]

    def attempt(self, n, number=1):
        return self.store.attempt(self.runs[n].key, number)

    def log(self, n):
        return job_log.of_run(self.logs, "8_2", self.runs[n].id).read_text()

    def hold(self, *numbers):
        """Stop runs as soon as they have a checkpoint; their processes."""
        wait_for(lambda: all((self.folder(n) / "checkpoint.pt").exists() for n in numbers))
        pids = [self.attempt(n)["owner"]["pid"] for n in numbers]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        return pids

    def ends(self):
        """Its exit status and all that it has printed."""
        out, err = self.process.communicate(timeout=240)
        return self.process.returncode, out + err


# --- what its runs get ---


@pytest.mark.parametrize(
    ("variable", "processes", "gpus", "at_once", "seen"),
    [
        ("CUDA_VISIBLE_DEVICES", 1, "4,6", 4, ["4", "4", "6", "6"]),
        ("CUDA_VISIBLE_DEVICES", 2, "4,5,6,7", 2, ["4,5", "6,7"]),
        ("ROCR_VISIBLE_DEVICES", 1, "4,6", 2, ["4", "6"]),
    ],
)
@pytest.mark.slow
def test_each_run_has_gpus_and_a_log_of_its_own(
    tmp_path, own, monkeypatch, variable, processes, gpus, at_once, seen
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    runs = points(own | {"processes": processes}, at_once)
    told = {variable: gpus, "GPUS_IN": variable, "HTBENCH_GPUS_PER_NODE": str(gpus.count(",") + 1)}
    job = Job(tmp_path, runs, at_once, **told)
    assert job.ends()[0] == 0
    told = [set(re.findall("^sees (.*)$", job.log(n), re.MULTILINE)) for n in range(at_once)]
    assert sorted(gpus for (gpus,) in told) == seen, "the same in all processes of a run"
    for n in range(at_once):
        job_id, _, _ = job_log.STARTS.match(job.log(n).splitlines()[0]).groups()
        assert job_id == "8_2" == job.attempt(n)["owner"]["job"]
    assert job.attempts() == [1] * at_once
    assert len({job.attempt(n)["owner"]["pid"] for n in range(at_once)}) == at_once


def test_a_node_with_fewer_gpus_than_promised_trains_nothing(tmp_path, tiny):
    """Its runs would crowd on those that are there."""
    runs = [dataclasses.replace(one, overrides=tiny) for one in points(tiny, 2)]
    told = {"CUDA_VISIBLE_DEVICES": "0", "HTBENCH_GPUS_PER_NODE": "4", "SLURMD_NODENAME": "gpu-03"}
    job = Job(tmp_path, runs, 2, **told)
    status, said = job.ends()
    assert (
        status == 1
        and (
            "htbench: Node gpu-03 shows 1 of 4 GPUs that the job was promised; its runs wait for the next "
            "`htbench sweep submit`, and `exclude: gpu-03` among the resources keeps jobs off that node.\n"
        )
        in said
    )
    assert job.attempts() == [0, 0] and not list(job.logs.glob("*_log.out"))


def test_a_run_that_can_not_even_begin_is_started_once(tmp_path, tiny):
    """Such as on a node with other data than the plan's: no attempt tells of it."""
    other = dataclasses.replace(points(tiny, 1)[0], key="0123456789ab")
    job = Job(tmp_path, [other])
    status, said = job.ends()
    assert status == 1 and said.count("has ended with status 1; this job leaves it") == 1
    assert job.attempts() == [0] and job.log(0).count("was planned with other code, data or defaults") == 1


def test_what_is_at_work_or_finished_elsewhere_is_left_alone(tmp_path, tiny):
    runs = points(tiny, 3)
    store = Store(tmp_path / "store")
    assert isinstance(store.claim(runs[0].key, ""), Attempt), "by this process, which lives"
    assert Job(tmp_path, runs[1:2]).ends()[0] == 0
    job = Job(tmp_path, runs, 3)
    status, said = job.ends()
    assert status == 1 and f"{runs[0].id} has ended with status 1; this job leaves it" in said
    assert f"Run {runs[0].key} is being trained by" in job.log(0)
    assert job.attempts() == [1, 1, 1]


# --- deaths ---


def test_what_befalls_one_run_leaves_its_neighbours_alone(tmp_path, tiny):
    job = Job(tmp_path, points(tiny | ENDLESS, 3), 3)
    killed, stopped, _ = job.hold(0, 1, 2)
    os.kill(killed, signal.SIGKILL)
    os.kill(stopped, signal.SIGTERM)  # by a person
    for pid in (stopped, job.attempt(2)["owner"]["pid"]):
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: job.attempts()[0] == 2 and job.attempt(1)["outcome"])
    wait_for(lambda: "going on from step" in (job.folder(0) / "log.txt").read_text())
    assert job.attempt(0)["outcome"]["reason"] == "died" and job.attempt(1)["outcome"]["reason"] == "stopped"
    job.process.send_signal(signal.SIGTERM)  # as `scancel` does
    status, said = job.ends()
    assert status == 2 and not job.called.exists(), "cancelled, it is not queued again"
    assert f"{job.runs[0].id} was killed by signal 9; it begins again" in said
    assert job.attempts() == [2, 1, 1], "one that a person stops waits for the next submit"
    assert job.attempt(0, 2)["outcome"]["reason"] == job.attempt(2)["outcome"]["reason"] == "stopped"


def test_a_warning_lets_all_save_and_the_job_comes_back_for_what_is_left(tmp_path, tiny):
    runs = points(tiny | {"steps": 60, "checkpoint.every_steps": 3}, 3)
    job = Job(tmp_path, runs, 2)
    held = job.hold(0, 1)
    os.killpg(job.process.pid, signal.SIGUSR2)  # SLURM signals all processes of a step
    for pid in held:
        os.kill(pid, signal.SIGCONT)
    assert job.ends()[0] == 2 and job.called.read_text() == "requeue 8_2\n"
    assert not closed_path(job.logs, "8_2").exists()
    assert job.attempts() == [1, 1, 0]
    job.called.unlink()
    again = Job(tmp_path, runs, 2)
    assert again.ends()[0] == 0 and again.attempts() == [2, 2, 1]
    assert len(job_log.STARTS.findall(again.log(0).splitlines()[0])) == 1
    last = Job(tmp_path, runs, 2)
    assert last.ends()[0] == 0 and last.attempts() == [2, 2, 1] and not last.called.exists()


def test_when_the_job_itself_is_killed_all_runs_save_and_end(tmp_path, tiny):
    job = Job(tmp_path, points(tiny | ENDLESS, 2), 2)
    for pid in job.hold(0, 1):
        os.kill(pid, signal.SIGCONT)
    job.process.send_signal(signal.SIGKILL)
    wait_for(lambda: all(job.attempt(n)["outcome"] for n in (0, 1)))
    assert [job.store.state(run.key).status for run in job.runs] == [Status.WAITING] * 2


@pytest.mark.slow
def test_a_run_that_only_dies_begins_again_a_few_times(tmp_path, own):
    """Here it dies before it has an owner, so the store cannot give it up."""
    job = Job(tmp_path, points(own, 1), DIES="1")
    status, said = job.ends()
    assert status == 1 and job.attempts() == [0]
    assert len(re.findall("begins again", said)) == schedule.MOST_DEATHS
    assert len(job.log(0).splitlines()) == schedule.MOST_DEATHS + 1


@pytest.mark.slow
def test_a_warning_before_anything_is_loaded_is_kept(tmp_path, tiny):
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\n[ $1 = show ] || echo "$@" >> {tmp_path}/called\n')
    (tmp_path / "scontrol").chmod(0o755)
    root, runs, wants = tmp_path / "store", points(tiny, 2), Resources(runs_per_job=2)
    array = Submission("tiny", "w", tuple(one.id for one in runs), job="8", runs_per_job=2)
    logs, code = job_array.log_folder(root, array), snapshot.take(root)
    content = job_array.order(array, runs)
    logs.mkdir(parents=True)
    (logs / ORDER).write_bytes(content)
    words = srun_words(job_array.text(root, code, array, wants, 1, content))
    told = {"SLURM_JOB_ID": "8", "SUBMITIT_EXECUTOR": "slurm", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told |= {"PYTHONPATH": str(code.folder), job_log.AT_ONCE: "2"}
    words = words[words.index("--export=ALL") + 1 :]
    process = subprocess.Popen(words, cwd=code.folder, env=os.environ | told)
    wait_for(lambda: b"\0sweeps.cluster.job\0" in Path(f"/proc/{process.pid}/cmdline").read_bytes()[:200])
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=240) == 2
    assert (tmp_path / "called").read_text() == "requeue 8\n" and not (root / "runs").exists()


# --- failures that a person resets ---

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: only, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.01, 0.02]}}
resources: {runs_per_job: 2}
"""


@pytest.fixture
def failed(tmp_path, write_spec, monkeypatch):
    """A sweep whose job is at work and has a run that failed: store, sweep, points, job's log folder."""
    cluster = FakeSlurm(tmp_path / "slurm", monkeypatch)
    store, spec = Store(tmp_path / "store"), sweep_file.load(write_spec(SPEC))
    planned = search_points(spec)
    assert submit.submit(store, spec, planned).submitted == 2
    assert list(cluster.jobs()) == ["8"], "one job for both"
    cluster.change("8", state="RUNNING")
    store.claim(planned[0].point.key, "").end(Reason.ERROR, "no room")
    (one,) = submissions.read(store.root, "tiny")
    return store, spec, planned, job_array.log_folder(store.root, one)


def test_retry_leaves_a_failed_run_to_its_job_while_that_goes_on(failed):
    store, spec, planned, _ = failed
    assert submit.submit(store, spec, planned).queued == 2
    assert store.state(planned[0].point.key).status is Status.FAILED, "nobody asked for it"
    report = submit.submit(store, spec, planned, submit.Wishes(retry=True))
    assert (report.queued, report.submitted) == (2, 0)
    assert store.state(planned[0].point.key).status is Status.WAITING


def test_retry_gives_a_failed_run_a_new_job_if_its_own_looks_no_more(failed):
    store, spec, planned, logs = failed
    closed_path(logs, "8").touch()
    report = submit.submit(store, spec, planned, submit.Wishes(retry=True))
    assert (report.queued, report.submitted) == (1, 1)
    assert report.arrays[0][0].points == (planned[0].point.key,)


@pytest.mark.parametrize("when", ["while it works", pytest.param("as it closes", marks=pytest.mark.slow)])
def test_a_job_trains_a_failed_run_again_once_that_is_reset(tmp_path, own, tiny, when, monkeypatch):
    reason = tmp_path / "parts" / "fails"
    reason.touch()
    fails, other = points(own, 1)[0], points(tiny | {"steps": 10, "checkpoint.every_steps": 3}, 1)[0]
    if when == "while it works":
        job = Job(tmp_path, [fails, other], 2)
        (held,) = job.hold(1)
        wait_for(lambda: job.store.state(fails.key).status is Status.FAILED)
        reason.unlink()
        assert job.store.reset_failure(fails.key)
        os.kill(held, signal.SIGCONT)
        assert job.ends()[0] == 0 and job.attempts() == [2, 1]
        assert closed_path(job.logs, "8_2").exists()
        return
    (tmp_path / "logs").mkdir()
    one = PackedJob(tmp_path / "store", [fails], tmp_path / "logs", Monitor())
    close = one.close

    def reset_and_close():
        if one.store.state(fails.key).status is Status.FAILED:
            reason.unlink()
            assert one.store.reset_failure(fails.key)
        close()

    monkeypatch.setattr(one, "close", reset_and_close)
    one.run()
    assert one.store.record(fails.key) is not None and one.store.last_attempt(fails.key) == 2


# --- arrays of such jobs ---


def test_limits_count_jobs(write_spec):
    text = SPEC.replace("[0.01, 0.02]", "{low: 0.01, high: 0.1, log: true, num: 11}")
    text = text.replace("resources:", "  - {name: more, set: {optimizer.name: adamw}}\nresources:")
    spec = sweep_file.load(write_spec(text))
    all_points = [one.point for one in search_points(spec)]
    arrays = submit.group_into_arrays(spec, all_points, largest=4)
    assert [(len(array.points), array.jobs) for array in arrays] == [(8, 4), (3, 2), (1, 1)]
    limited = [
        dataclasses.replace(one, resources=Resources(runs_per_job=2, submit_limit=7)) for one in arrays
    ]
    kept = submit.apply_submit_limit(limited, queued=2)
    assert [(len(array.points), array.jobs) for array in kept] == [(8, 4), (2, 1)]


def test_a_site_limit_halves_the_jobs(write_spec, tmp_path, monkeypatch):
    spec = sweep_file.load(write_spec(SPEC.replace("[0.01, 0.02]", "{low: 0.01, high: 0.1, num: 7}")))
    sizes = []

    def picky(root, code, one, resources, sent):
        sizes.append((one.tasks, len(sent), one.runs_per_job))
        if one.tasks > 1:
            raise sbatch.RefusedError("AssocMaxSubmitJobLimit; Job violates accounting/QOS policy")
        return "5"

    monkeypatch.setattr(job_array, "submit", picky)
    sweep_folder(tmp_path, "tiny").mkdir(parents=True)
    array = Array(Resources(runs_per_job=2), tuple(one.point for one in search_points(spec)))
    report = submit.Report()
    submit._send(tmp_path, Snapshot(tmp_path / "code" / "v1", ""), spec, array, report)
    assert sizes == [(4, 7, 2), (2, 4, 2), (1, 2, 2)] and report.submitted == 2


def test_each_job_has_its_share_in_the_order(tiny):
    runs = points(tiny, 5)
    array = Submission("tiny", "w", tuple(one.id for one in runs), job="8", runs_per_job=2)
    told = json.loads(job_array.order(array, runs))
    assert told["together"]
    assert [[Point(**one) for one in job] for job in told["jobs"]] == [runs[:2], runs[2:4], runs[4:]]


# --- what it asks for ---


@pytest.mark.parametrize(
    ("wants", "processes", "sentence"),
    [
        ({"runs_at_once": 2}, 1, "runs_at_once=2 needs a job with several runs; add runs_per_job."),
        (
            {"runs_per_job": 4, "runs_per_gpu": 2},
            1,
            "runs_per_gpu=2 needs gpus_per_node; without GPUs runs_at_once says how many runs a job trains "
            "side by side.",
        ),
        (
            {"runs_per_job": 4, "gpus_per_node": 2, "runs_at_once": 2},
            1,
            "runs_at_once=2 is for jobs without GPUs; with gpus_per_node=2 each GPU takes runs_per_gpu=1 "
            "runs at once.",
        ),
        (
            {"runs_per_job": 4, "nodes": 2},
            2,
            "runs_per_job=4 is for jobs on one node, not on nodes=2.",
        ),
        (
            {"runs_per_job": 4, "gpus_per_node": 2},
            4,
            "processes=4 does not suit gpus_per_node=2 and runs_per_gpu=1: each process of a run has a GPU, "
            "and those of several have it alone.",
        ),
        (
            {"runs_per_job": 4, "gpus_per_node": 4, "runs_per_gpu": 2},
            2,
            "processes=2 does not suit gpus_per_node=4 and runs_per_gpu=2: each process of a run has a GPU, "
            "and those of several have it alone.",
        ),
        (
            {"gpus_per_node": 4},
            1,
            "gpus_per_node=4 does not suit processes=1 on nodes=1: each process has one GPU, so it must be "
            "gpus_per_node=1 or processes=4; for several runs in a job add runs_per_job.",
        ),
    ],
)
def test_what_does_not_suit_several_runs_is_one_sentence(wants, processes, sentence):
    with pytest.raises(UsageError) as caught:
        Resources(**wants).check(processes)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("wants", "processes", "side_by_side", "cores"),
    [
        ({"runs_per_job": 8, "gpus_per_node": 4, "runs_per_gpu": 2}, 1, 8, 16),
        ({"runs_per_job": 60, "gpus_per_node": 4}, 2, 2, 8),
        ({"runs_per_job": 3, "gpus_per_node": 4, "runs_per_gpu": 2}, 1, 3, 6),
        ({"runs_per_job": 6, "runs_at_once": 2}, 2, 2, 8),
        ({"runs_per_job": 6}, 1, 1, 2),
    ],
)
def test_a_job_asks_for_the_cores_of_the_runs_side_by_side(tmp_path, wants, processes, side_by_side, cores):
    resources = Resources(cpus_per_task=2, **wants)
    resources.check(processes)
    array = Submission("tiny", "w", tuple("abc"), runs_per_job=resources.runs_per_job)
    text = job_array.text(tmp_path, Snapshot(tmp_path, ""), array, resources, processes)
    assert f"#SBATCH --cpus-per-task={cores}\n" in text and "#SBATCH --ntasks-per-node=1\n" in text
    assert f"export {job_log.AT_ONCE}={side_by_side}\n" in text


def test_the_plan_shows_jobs_with_several_runs(htbench, write_spec):
    shown = htbench("sweep", "plan", write_spec(SPEC), "--no-measure", "--sbatch").stdout
    assert "runs_per_job=2" in shown and "#SBATCH --job-name=tiny.only.0123456789" in shown
    assert "--array" not in shown, "a single job for two runs"


def test_the_plan_counts_the_jobs_as_submit_would_group_them(htbench, write_spec):
    """A job has runs of one block only, and 5 runs of 2 each are 3 jobs."""
    blocks = "".join(f"  - {{name: {name}, set: {{optimizer.name: {name}}}}}\n" for name in ("sgdm", "muon"))
    wants = "{runs_per_job: 2, runs_at_once: 2}"
    base = "base: {task: digits, model: resnet-nano, steps: 8}\nseeds: [0, 1, 2, 3, 4]"
    path = write_spec(f"{base}\nblocks:\n{blocks}resources: {wants}\n")
    words = ["sweep", "plan", path, "--no-measure"]
    assert "6 jobs of up to 2 runs, 2 at once" in htbench(*words).stdout.splitlines()
    (view,) = json.loads(htbench(*words, "--json").stdout)
    row = {"jobs": 3, "runs": 5, "runs_per_job": 2, "runs_at_once": 2}
    assert view["jobs"] == [{"blocks": [name], **row} for name in ("sgdm", "muon")]
    path.write_text(path.read_text().replace(wants, "{timeout_min: 30}"))
    assert " jobs " not in htbench(*words).stdout, "as many as runs"
    (view,) = json.loads(htbench(*words, "--json").stdout)
    row = {"jobs": 10, "runs": 10, "runs_per_job": 1, "runs_at_once": 1}
    assert view["jobs"] == [{"blocks": ["sgdm", "muon"], **row}]
