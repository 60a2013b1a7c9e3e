"""Whatever happens to jobs and to who submits them: each point has one job at most, and none is forgotten.

People submit, cancel and edit their file in any order. Between these jobs begin, end well, fail or die,
and submitters die before they note what they have submitted.
"""

import dataclasses
import itertools
import tempfile
from collections import Counter
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from htbench.harness.show.status import Status
from htbench.harness.store import Reason, Store, submissions
from htbench.harness.store.points import sweep_folder
from htbench.harness.system import slurm
from htbench.sweeps.cluster import queue, submit
from htbench.sweeps.cluster.snapshot import Snapshot
from htbench.sweeps.cluster.submit import SubmitOptions
from htbench.sweeps.plan.planned import search_points, states
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers.fake_slurm import FakeSlurm
from tests.helpers.records import scored

TEXT = """
name: tiny
base: {{task: digits, model: resnet-nano, steps: 8, batch_size: 16}}
blocks:
  - {{name: sgdm, set: {{optimizer.name: sgdm}}, space: {{optimizer.lr: [{rates}]}}}}
  - {{name: adamw, set: {{optimizer.name: adamw}}, space: {{optimizer.lr: [0.01, 0.02]}}}}
resources: {{timeout_min: {minutes}}}
"""
FILES = list(itertools.product(("0.1, 0.2, 0.3", "0.1, 0.2"), (30, 60)))


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The sweep as each edit of its file makes it, with its points."""
    folder, made = tmp_path_factory.mktemp("files"), []
    for rates, minutes in FILES:
        path = folder / "tiny.yaml"
        path.write_text(TEXT.format(rates=rates, minutes=minutes))
        spec = specs.load(path)
        made.append((spec, search_points(spec)))
    return made


class Sweep(RuleBasedStateMachine):
    """A sweep in the hands of careless people."""

    files = []

    def __init__(self):
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.place = tempfile.TemporaryDirectory()
        root = Path(self.place.name)
        self.slurm = FakeSlurm(root / "slurm", self.patches)
        self.slurm.in_process(self.patches)
        code = Snapshot(root / "code", "")
        self.patches.setattr("htbench.sweeps.cluster.snapshot.take", lambda root, configs: code)
        self.store = Store(root / "store")
        self.spec, self.planned = self.files[0]

    def teardown(self):
        self.patches.undo()
        self.place.cleanup()

    @property
    def points(self):
        return [one.point for one in self.planned]

    @property
    def shares(self):
        """The jobs in the queue and the point of each."""
        arrays = submissions.read_all(self.store.root)
        return [(job, id) for _, id, job in queue.match_jobs(arrays, slurm.queue())]

    def check_numbers(self):
        """What is in the queue is known by its number."""
        arrays = submissions.read_all(self.store.root)
        assert all(one.job and not one.refused for one, *_ in queue.match_jobs(arrays, slurm.queue()))

    def _states(self):
        return {id: state.status for id, state in states(self.store, self.points).items()}

    # --- people ---

    @rule(file=st.sampled_from(range(len(FILES))))
    def edit(self, file):
        self.spec, self.planned = self.files[file]

    @rule(retry=st.booleans(), replace=st.booleans(), block=st.sampled_from(["", "", "sgdm"]))
    def submit(self, retry, replace, block):
        options = SubmitOptions(block, retry, replace)
        try:
            report = submit.submit(self.store, self.spec, self.planned, options)
        except submit.UsageError as error:
            assert "--replace" in str(error), "the file lacks stored points"
            return
        self.check_numbers()
        wanted = options.select(self.planned)
        told = (report.finished, report.queued, report.live, len(report.failed), report.submitted)
        assert sum(told) == len(wanted) and not report.left
        taken = {id for _, id in self.shares}
        planned = {point.id for point in self.points}
        assert not any(job.pending and id not in planned for job, id in self.shares)
        for one in wanted:
            state = self._states()[one.point.id]
            assert state.is_settled or one.point.id in taken, "nothing that waits is left without a job"
        assert not submit.submit(self.store, self.spec, self.planned, options).submitted, "once is enough"

    @rule(block=st.sampled_from(["", "sgdm"]))
    @precondition(lambda self: self.slurm.jobs())
    def cancel(self, block):
        mine = {point.id for point in self.points if point.block == block}
        note = queue.cancel(self.store.root, "tiny", mine if block else None)
        left = {id for _, id in self.shares}
        assert note["others"] == 0 and (left.isdisjoint(mine) if block else not left)

    @rule()
    @precondition(lambda self: submissions.read_all(self.store.root))
    def lose_an_answer(self):
        """A submitter dies between the answer of `sbatch` and its note of it."""
        path = sweep_folder(self.store.root, "tiny") / "submissions.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        if '"job"' in lines[-1]:
            path.write_text("".join(lines[:-1]))

    # --- the cluster ---

    @rule(data=st.data())
    @precondition(lambda self: "PENDING" in self.slurm.jobs().values())
    def begin(self, data):
        waiting = sorted(id for id, state in self.slurm.jobs().items() if state == "PENDING")
        self.slurm.change(data.draw(st.sampled_from(waiting)), state="RUNNING")

    @rule(data=st.data(), how=st.sampled_from(["well", "failed", "died"]))
    @precondition(lambda self: "RUNNING" in self.slurm.jobs().values())
    def end(self, data, how):
        running = sorted(id for id, state in self.slurm.jobs().items() if state == "RUNNING")
        job = data.draw(st.sampled_from(running))
        (key,) = [id for one, id in self.shares if one.id == job]
        if how != "died" and self.store.state(key).status is Status.WAITING:
            attempt = self.store.claim(key, "")
            if how == "failed":
                attempt.end(Reason.ERROR, "no room")
            else:
                record = scored("digits", val_accuracy=0.5, val_loss=1.0)
                attempt.finish(dataclasses.replace(record, key=key))
        self.slurm.change(job, state="")

    @invariant()
    def a_point_has_one_job_at_most(self):
        counts = Counter(id for _, id in self.shares)
        assert not counts or max(counts.values()) == 1


def test_no_order_of_events_loses_or_doubles_a_job(planned):
    Sweep.files = planned
    settings = hypothesis.settings(max_examples=25, stateful_step_count=20, deadline=None, derandomize=True)
    hypothesis.stateful.run_state_machine_as_test(Sweep, settings=settings)
