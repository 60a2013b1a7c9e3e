"""Jobs that ended before their run began: why, where, how many."""

import json
import time

import pytest

from htbench.harness.store import Store, submissions
from htbench.harness.store.owner import Owner
from htbench.sweeps.cluster import early_ends, troubles
from htbench.sweeps.cluster.job_log import log_path
from htbench.sweeps.cluster.queue import log_folder
from htbench.sweeps.plan.planned import search_points, states
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec import sweep_file as specs
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

    def log(self, task, node, said, array=None):
        array = array or self.array
        path = log_path(log_folder(self.store.root, array), f"{array.job}_{task}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"htbench: job {array.job}_{task} on node {node} starts at {NOW - 120}\n{said}")

    def run(self, task, seconds, outcome, monkeypatch, job=None):
        """A run that began in a job."""
        monkeypatch.setattr("htbench.harness.store.owner.slurm.own_job", lambda: job or f"7_{task}")
        attempt = self.store.claim(self.points[task].key, "")
        assert isinstance(attempt.owner, Owner)
        content = attempt.to_json() | {"began": NOW - 200, "ended": NOW - 200 + seconds, "outcome": outcome}
        attempt.path.write_text(json.dumps(content))

    def look(self, **more):
        return troubles.find_troubles(
            self.store, self.spec, self.points, states(self.store, self.points), **more
        )

    def lines(self):
        return [str(note) for note in self.look().make_notes("tiny")]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def sweep(tmp_path, write_spec, cluster):
    return Sweep(tmp_path / "store", write_spec(SPEC))


def execve(node):
    return f"slurmstepd: error: {EXECVE}\nsrun: error: {node}: task 0: Exited with exit code 2\n"


def test_jobs_are_grouped_by_reason_and_node(sweep):
    for task in range(3):
        sweep.log(task, "n2", f"{execve('n2')}".replace("python", f"python-{task}"))
    sweep.log(3, "n4", execve("n4").replace("python", "python-3"))
    sweep.log(4, "n4", "htbench: job 7_4 on node n4: setup line 2 exited with 3: exit 3\n")
    rows = sweep.look().ended_early
    assert [(row.node, row.jobs) for row in rows] == [
        ("n2", ["7_0", "7_1", "7_2"]),
        ("n4", ["7_3"]),
        ("n4", ["7_4"]),
    ]
    assert rows[2].log.endswith("7_4_0_log.out")
    first, _, third = map(str, early_ends.make_notes("tiny", rows))
    said = "execve(): /opt/python-0: No such file or directory (on n2; log: "
    assert first.startswith(f"tiny: 3 jobs ended before their runs began: {said}")
    said = "setup line 2 exited with 3: exit 3 (on n4; log: "
    assert third.startswith(f"tiny: 1 job ended before its run began: {said}")
    for task in (5, 6):
        sweep.log(task, f"n{task}", execve(f"n{task}"))
    assert sweep.lines()[-1] == "tiny: 2 more jobs ended before their runs began"


def test_a_later_job_of_a_run_that_had_begun_before_is_told_too(sweep, monkeypatch):
    sweep.run(0, 3000, {"reason": "stopped"}, monkeypatch)
    sweep.log(0, "n1", execve("n1"))
    assert sweep.lines() == [], "its run had begun"
    again = sweep.submitted("8")
    sweep.log(0, "n2", execve("n2"), array=again)
    (line,) = sweep.lines()
    assert EXECVE in line and "8_0_0_log.out" in line


def test_what_is_in_the_queue_or_was_submitted_again_has_not_ended(sweep, cluster):
    sweep.log(0, "n2", execve("n2"))
    cluster._write({"7_0": ["RUNNING", sweep.array.name]})
    assert sweep.look().ended_early == []
