"""Jobs that ended early: why, where, how many; and the nodes that do that to the jobs they are given."""

import json
import os
import time

import pytest

from harness import cli
from harness.show.note import Note
from harness.store import Store, submissions
from harness.store.owner import Owner
from harness.store.points import sweep_folder
from harness.system import slurm
from sweeps.cluster import early_ends, job_log, submit, troubles
from sweeps.cluster.early_ends import FailingNode
from sweeps.cluster.snapshot import Snapshot
from sweeps.cluster.submit import Wishes
from sweeps.plan.planned import search_points, states
from sweeps.plan.stored import write_plan
from sweeps.spec import sweep_file as specs
from tests.helpers.fake_slurm import FakeSlurm

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: {low: 0.01, high: 0.1, num: 12}}}
resources: {timeout_min: 30, exclude: n9}
"""
EXECVE = "execve(): /opt/python: No such file or directory"
NOW = int(time.time())


class Sweep:
    """Twelve points of which each had a job, and what those left behind."""

    def __init__(self, root, text_path):
        self.store, self.spec = Store(root), specs.load(text_path)
        self.planned = search_points(self.spec)
        self.points = [one.point for one in self.planned]
        write_plan(root, self.spec, self.planned)
        self.array = self.submitted("7")

    def submitted(self, job, **remarks):
        remarks |= {"resources": self.spec.blocks[0].resources.asked()}
        one = submissions.intend(self.store.root, "tiny", [point.id for point in self.points], remarks)
        submissions.answer(self.store.root, one, job=job)
        return submissions.read(self.store.root, "tiny")[-1]

    def log(self, task, node, said, seconds=20, ago=100, array=None):
        array = array or self.array
        path = early_ends.log_path(self.store.root, array, f"{array.job}_{task}")
        path.parent.mkdir(parents=True, exist_ok=True)
        start = f"htbench: job {array.job}_{task} on node {node} starts at {NOW - ago - seconds}\n"
        path.write_text(start + said)
        os.utime(path, (NOW - ago, NOW - ago))

    def run(self, task, seconds, outcome, monkeypatch, job=None):
        """A run that began in a job."""
        monkeypatch.setattr("harness.store.owner.slurm.own_job", lambda: job or f"7_{task}")
        attempt = self.store.claim(self.points[task].key, "")
        assert isinstance(attempt.owner, Owner)
        content = attempt.to_json() | {"began": NOW - 200, "ended": NOW - 200 + seconds, "outcome": outcome}
        attempt.path.write_text(json.dumps(content))

    def look(self, **more):
        return troubles.look(self.store, self.spec, self.points, states(self.store, self.points), **more)

    def lines(self):
        return [str(note) for note in self.look().notes("tiny")]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def sweep(tmp_path, write_spec, cluster):
    return Sweep(tmp_path / "store", write_spec(SPEC))


def execve(node):
    return f"slurmstepd: error: {EXECVE}\nsrun: error: {node}: task 0: Exited with exit code 2\n"


def eaten(sweep, monkeypatch):
    """Nine jobs end on n2 at once, three are at work elsewhere."""
    for task in range(9):
        sweep.log(task, "n2", execve("n2"), seconds=10 + task)
    for task in (9, 10, 11):
        sweep.log(task, "n3", "training\n", seconds=300)
        sweep.run(task, 180, {"reason": "stopped"}, monkeypatch)


# --- why they ended ---


def test_jobs_are_grouped_by_reason_and_node(sweep):
    for task in range(3):
        sweep.log(task, "n2", f"{execve('n2')}".replace("python", f"python-{task}"))
    sweep.log(3, "n4", execve("n4").replace("python", "python-3"))
    sweep.log(4, "n4", "htbench: job 7_4 on node n4: setup line 2 exited with 3: exit 3\n")
    rows = sweep.look().ended_early
    first, second = early_ends.notes("tiny", rows)
    assert (first["jobs"], first["runs"], first["nodes"]) == (4, 4, ["n2 (3)", "n4 (1)"])
    assert first["error"] == "execve(): /opt/python-0: No such file or directory"
    assert str(second).startswith(
        "tiny: 1 job ended before its run began: setup line 2 exited with 3: exit 3 (on n4; log: "
    )
    assert [(row.node, row.jobs, row.seconds) for row in rows] == [
        ("n2", ["7_0", "7_1", "7_2"], 20.0),
        ("n4", ["7_3"], 20.0),
        ("n4", ["7_4"], 20.0),
    ]
    assert rows[2].log.endswith("7_4_0_log.out")


def test_a_later_job_of_a_run_that_had_begun_before_is_told_too(sweep, monkeypatch):
    sweep.run(0, 3000, {"reason": "stopped"}, monkeypatch)
    again = sweep.submitted("8")
    sweep.log(0, "n2", execve("n2"), array=again)
    (line,) = sweep.lines()
    assert EXECVE in line and "8_0_0_log.out" in line


def test_what_is_in_the_queue_or_was_submitted_again_has_not_ended(sweep, cluster):
    sweep.log(0, "n2", execve("n2"))
    cluster._write({"7_0": ["RUNNING", sweep.array.name]})
    assert sweep.look().ended_early == []


def test_a_job_that_could_not_write_a_log_is_told_by_slurm(sweep, cluster):
    row = (
        "JobId={} ArrayJobId=7 ArrayTaskId={} JobState={} ExitCode=0:53 StartTime={} EndTime={} BatchHost={}"
    )
    start = "2026-11-23T10:00:00"
    rows = [
        row.format(12, 0, "FAILED", start, "2026-11-23T10:00:01", "n2"),
        row.format(13, 1, "CANCELLED", "Unknown", "Unknown", "(null)"),
    ]
    (cluster.place / "7.shown").write_text("\n".join(rows) + "\n")
    early_ends._rows.cache_clear()
    (row,) = sweep.look().ended_early
    assert (row.jobs, row.node, row.seconds) == (["7_0"], "n2", 1.0)
    assert row.reason == "no log was written (FAILED, exit code 0:53)"
    assert len(cluster.called("scontrol")) == 1, "eleven jobs without a log are one question"


# --- jobs with several runs ---


@pytest.fixture
def packed(sweep):
    """The twelve points once more, in four jobs of three."""
    sweep.array = sweep.submitted("8", runs_per_job=3)
    return sweep


def own_log(sweep, place, said):
    """The log of a run of such a job; its first lines are of a start before that."""
    job = f"8_{place // 3}"
    path = job_log.of_run(
        early_ends.log_path(sweep.store.root, sweep.array, job).parent, job, sweep.points[place].id
    )
    start = f"htbench: job {job} on node n2 starts at {NOW - 120}\n"
    path.write_text(f"{start}OSError: of the first start\n{start}{said}")
    return path


def test_a_job_with_several_runs_of_which_none_began_counts_once(packed, cluster):
    for task in range(3):
        packed.log(task, "n2", execve("n2"))
    cluster._write({"8_1": ["PENDING", packed.array.name]})
    (line,) = packed.lines()
    assert line.startswith(f"tiny: 2 jobs ended before their 6 runs began: {EXECVE} (on n2; log: ")
    (row,) = packed.look().ended_early
    assert (row.jobs, row.runs) == (["8_0", "8_2"], 6)
    again = packed.submitted("9", runs_per_job=2)
    cluster._write({id: ["PENDING", again.name] for id in again.jobs()})
    assert packed.look(jobs=slurm.queue()).ended_early == [], "a later job has been submitted for each run"


def test_a_run_that_could_not_begin_is_told_by_its_own_log(packed):
    packed.log(0, "n2", "submitit INFO (x) - Loading pickle\n")
    path = own_log(packed, 1, "ImportError: libcudart.so\n")
    (row,) = packed.look().ended_early
    assert (row.reason, row.node, row.log) == ("ImportError: libcudart.so", "n2", str(path))


def test_a_node_is_judged_by_jobs_and_not_by_their_runs(packed, monkeypatch):
    failure = {"reason": "error", "message": ""}
    for task in range(4):
        packed.log(task, "n3" if task == 3 else "n2", "training\n", seconds=300)
        for place in range(3 * task, 3 * task + 3):
            packed.run(place, 90 if task == 3 else 20, failure, monkeypatch, job=f"8_{task}")
            own_log(packed, place, "RuntimeError: CUDA error\n")
    (node,) = packed.look().failing_nodes
    assert (node.node, node.early, node.jobs, node.reason) == ("n2", 3, 3, "RuntimeError: CUDA error")


@pytest.mark.parametrize("goes_on", ["a run that took longer", "the job is in the queue"])
def test_a_job_that_went_on_with_other_runs_did_not_end_early(packed, cluster, monkeypatch, goes_on):
    failure = {"reason": "error", "message": "CUDA error"}
    for task in range(4):
        packed.log(task, "n3" if task == 3 else "n2", "training\n", seconds=300)
        packed.run(3 * task, 20, failure, monkeypatch, job=f"8_{task}")
    if goes_on == "the job is in the queue":
        cluster._write({"8_0": ["RUNNING", packed.array.name]})
    else:
        packed.run(1, 90, {"reason": "finished"}, monkeypatch, job="8_0")
    assert packed.look().failing_nodes == [], "two early ends on a node are too few"


# --- nodes that eat jobs ---


def test_a_node_that_eats_jobs_is_named(sweep, monkeypatch):
    eaten(sweep, monkeypatch)
    said = f"node n2 ended 9 of its 9 jobs early, each within 18 s ({EXECVE})"
    assert any(
        line.startswith(f"tiny: {said}; `htbench sweep submit --exclude-failing`") for line in sweep.lines()
    )
    (node,) = sweep.look().failing_nodes
    assert node == FailingNode(node="n2", early=9, jobs=9, seconds=18.0, reason=EXECVE)


def test_runs_that_fail_in_their_first_minute_count_and_later_ones_do_not(sweep, monkeypatch):
    for task in range(8):
        sweep.log(task, "n2" if task < 4 else "n3", "training\n", seconds=50)
        outcome = {"reason": "error", "message": "CUDA error: device is busy\nmore"}
        sweep.run(task, 30 if task < 3 else 90, outcome, monkeypatch)
    (node,) = sweep.look().failing_nodes
    assert (node.node, node.early, node.jobs, node.reason) == ("n2", 3, 4, "CUDA error: device is busy")


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        (["n2"] * 12, {}),  # no other node was tried
        (["n2"] * 6 + ["n3"] * 6, {}),  # the same everywhere: it is the jobs
        (["n2"] * 2, {}),  # too few
        (["n2"] * 3, {"ago": 100_000}),  # too long ago
    ],
    ids=["one node", "all nodes", "few", "old"],
)
def test_no_node_is_named_without_reason(sweep, monkeypatch, nodes, more):
    for task, node in enumerate(nodes):
        sweep.log(task, node, execve(node), **more)
    for task in range(len(nodes), 12):
        sweep.log(task, "n3", "training\n", seconds=300)
        sweep.run(task, 180, {"reason": "stopped"}, monkeypatch)
    assert sweep.look().failing_nodes == []


def test_jobs_that_a_person_cancelled_are_not_the_fault_of_their_node(sweep, monkeypatch):
    eaten(sweep, monkeypatch)
    for task in range(9):
        sweep.log(task, "n2", "slurmstepd: error: *** JOB 7 ON n2 CANCELLED AT 2026-11-23T10:00:00 ***\n")
    assert sweep.look().failing_nodes == []


def test_a_node_that_mostly_works_is_not_named(sweep, monkeypatch):
    for task in range(12):
        sweep.log(task, "n2" if task < 8 else "n3", execve("n2") if task < 3 else "training\n", seconds=50)
        if task >= 3:
            sweep.run(task, 180, {"reason": "stopped"}, monkeypatch)
    assert sweep.look().failing_nodes == []


# --- what `submit` does about them ---


@pytest.fixture
def submitted(sweep, monkeypatch, tmp_path):
    """Submit in this process; the report and the options of the new arrays."""
    monkeypatch.setattr("sweeps.cluster.snapshot.take", lambda root, configs: Snapshot(tmp_path, ""))

    def submitted(**more):
        report = submit.submit(sweep.store, sweep.spec, sweep.planned, Wishes(**more))
        folder = sweep_folder(sweep.store.root, "tiny") / "logs"
        texts = [(folder / one.word / "submission.sh").read_text() for one, _ in report.arrays]
        return report, [
            line.partition("=")[2] for text in texts for line in text.splitlines() if "--exclude=" in line
        ]

    return submitted


def test_submit_says_what_happened_before_and_offers_to_keep_off(sweep, submitted, monkeypatch):
    eaten(sweep, monkeypatch)
    report, excluded = submitted()
    assert excluded == ["n9"], "what the file says, and no more without being asked"
    lines = [str(note) for note in report.notes(sweep.spec, 12, quiet=True)[1:]]
    assert lines[0].startswith(f"tiny: 9 jobs ended before their runs began: {EXECVE} (on n2; log: ")
    assert "node n2 ended 9 of its 9 jobs early" in lines[1]
    assert "`htbench sweep submit --replace --exclude-failing` moves the jobs that wait" in lines[1]


def test_exclude_failing_adds_the_nodes_to_those_of_the_file(sweep, submitted, monkeypatch):
    eaten(sweep, monkeypatch)
    report, excluded = submitted(exclude_failing=True)
    assert excluded == ["n9,n2"] and report.submitted == 12
    assert report.notes(sweep.spec, 12)[-1]["advice"] == Note("nodes_kept_off")
    assert submissions.read(sweep.store.root, "tiny")[-1].excluded == ["n2"]
    assert sweep.look().outdated == [], "the file did not ask for that, nor against it"


def test_jobs_that_were_submitted_too_early_are_moved(
    sweep, submitted, cluster, monkeypatch, write_spec, capsys
):
    eaten(sweep, monkeypatch)
    submitted()
    words = ["sweep", "submit", str(write_spec(SPEC)), "--root", str(sweep.store.root)]
    assert cli.main([*words, "--replace", "--exclude-failing"]) == 0
    said = capsys.readouterr().out
    assert "tiny: 12 runs, 12 submitted, 12 exchanged in the queue\n" in said
    assert f"node n2 ended 9 of its 9 jobs early, each within 18 s ({EXECVE}); the new jobs keep off" in said
    assert set(cluster.jobs()) == {f"9_{task}" for task in range(12)}
    assert submissions.read(sweep.store.root, "tiny")[-1].excluded == ["n2"]
    report, _ = submitted(replace=True, exclude_failing=True)
    assert (report.exchanged, report.queued) == (0, 12), "once is enough"


def test_failed_runs_that_are_tried_again_keep_off_as_well(sweep, submitted, monkeypatch):
    for task in range(12):
        sweep.log(task, "n2" if task < 6 else "n3", "training\n", seconds=50)
        outcome = {"reason": "error", "message": "CUDA error"} if task < 6 else {"reason": "stopped"}
        sweep.run(task, 30, outcome, monkeypatch)
    report, excluded = submitted(retry=True, exclude_failing=True)
    assert report.submitted == 12 and excluded == ["n9,n2"]
