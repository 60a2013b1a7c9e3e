"""Jobs of a search in rounds: whoever ends a round trains the next one, whatever the others do."""

import os

import pytest

from htbench.harness.store import Store, layout, submissions
from htbench.harness.store.points import REPLICATE, SEARCH, read_points
from htbench.harness.store.submissions import intend
from htbench.harness.system.environment import CODE
from htbench.sweeps.cluster.next_round import plan_next_round
from htbench.sweeps.plan.planned import search_points, states
from htbench.sweeps.plan.replicas import everything
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec import sweep_file
from tests.helpers.job_process import JOB, order_words
from tests.helpers.warm import Command

TEXT = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 4, batch_size: 16, device: cpu}
search: {mode: refine, trials: 4}
blocks: [{name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.05, 0.1]}}]
replicate: {seeds: 1}
"""


@pytest.fixture
def planned(tmp_path, write_spec):
    """A store with the plan of the first round."""
    root, spec = tmp_path / "store", sweep_file.load(write_spec(TEXT))
    layout.begin(root)
    write_plan(root, spec, search_points(spec))
    points = [one.point for one in search_points(spec)]
    intend(root, "tiny", [point.id for point in points], {})
    return root, spec, points


def works(tmp_path, root, point):
    """The exit status of a job with this point, and what it has printed."""
    words = order_words(root, CODE, tmp_path / "logs", point)
    process = Command(["-c", JOB, *words], os.environ | {"SLURM_JOB_ID": "8"}, tmp_path)
    out, err = process.communicate(timeout=240)
    return process.returncode, out + err


def check_all_trained(root, spec):
    stored = read_points(root, "tiny")
    assert {p.point.id for p in everything(Store(root), spec)} == {point.id for point in stored}
    assert all(state.status.has_ended for state in states(Store(root), stored).values())
    assert len([p for p in stored if p.stage == SEARCH]) == 4
    assert len([p for p in stored if p.stage == REPLICATE]) == 1
    assert {Store(root).last_attempt(point.key) for point in stored} == {1}, "each once"


def test_the_job_that_ends_a_round_goes_on(tmp_path, planned):
    root, spec, (one, other) = planned
    status, said = works(tmp_path, root, one)
    assert status == 0, said
    assert len(read_points(root, "tiny")) == 2 and not plan_next_round(root, one), (
        "the other has a job of its own"
    )
    status, said = works(tmp_path, root, other)
    assert status == 0, said
    check_all_trained(root, spec)


def test_what_another_file_has_made_of_the_sweep_is_left_alone(tmp_path, planned, write_spec):
    root, spec, points = planned
    other = sweep_file.load(write_spec(TEXT.replace("steps: 4", "steps: 5")))
    write_plan(root, other, search_points(other), replace=True)
    assert plan_next_round(root, points[0]) == []
    (root / "sweeps/tiny/spec.yaml").write_text("nonsense: 1")
    assert plan_next_round(root, points[0]) == [] and submissions.read(root, "tiny")
