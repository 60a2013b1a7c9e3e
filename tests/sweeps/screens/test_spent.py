"""What a sweep has taken: attempts times what their jobs asked for, by block and in all."""

import dataclasses
import json

import pytest

from htbench.harness import cli
from htbench.harness.store import RunState, Store, submissions
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.screens import spent, status
from htbench.sweeps.screens.spent import Bill
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers.records import scored

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
  - name: muon
    set: {optimizer.name: muon, processes: 2}
    space: {optimizer.lr: [0.03, 0.1]}
    resources: {gpus_per_node: 2, cpus_per_task: 4}
"""


@pytest.fixture
def sweep(write_spec, tmp_path):
    path = write_spec(SPEC)
    spec, store = specs.load(path), Store(tmp_path / "store")
    planned = search_points(spec)
    write_plan(store.root, spec, planned)
    return path, spec, store, [one.point for one in planned]


def finish(store, point, hours, device="cpu"):
    """The record of a run of one attempt of so many hours."""
    times = {"began": "2026-01-31T00:00:00+00:00", "ended": f"2026-01-31T0{hours}:00:00+00:00", "attempts": 1}
    record = dataclasses.replace(scored("digits", "completed", val_accuracy=0.9, val_loss=1.0), **times)
    record.environment["device"] = device
    folder = store.run_folder(point.key)
    folder.mkdir(parents=True)
    store.write_record(dataclasses.replace(record, key=point.key))


def die(store, point, job, *, hours, reason):
    attempt = store.claim(point.key, "")
    attempt.owner = dataclasses.replace(attempt.owner, job=job)
    attempt.began -= 3600 * hours
    attempt._note(began=attempt.began, owner=attempt.owner.to_json())
    attempt.end(reason, "too large")


def submit(store, points, job, resources):
    one = submissions.intend(store.root, "tiny", [p.id for p in points], {"resources": resources})
    submissions.answer(store.root, one, job=job)


def hours(found):
    """Hours of GPUs and of cores."""
    return found.gpu_hours, found.core_hours


def told(store, spec, points):
    """What status says of hours."""
    (section,) = status.report(status.look(store, [(spec, points)])).sections
    return next(note["spent"] for note in section.notes if note.kind == "tally")


def test_a_job_counts_with_what_it_asked_for_and_other_runs_with_what_they_use(sweep, capsys):
    path, spec, store, points = sweep
    submit(
        store,
        points[2:],
        "7",
        {"timeout_min": 60, "nodes": 2, "gpus_per_node": 1, "cpus_per_task": 3, "processes": 2},
    )
    finish(store, points[0], 2)
    finish(store, points[2], 3, "cuda")
    die(store, points[3], "7_1", hours=1, reason="oom")
    assert cli.main(["sweep", "status", str(path), "--root", str(store.root), "--json"]) == 0
    sgdm, muon = (block["spent"] for block in json.loads(capsys.readouterr().out))
    assert (sgdm["runs"], sgdm["gpu_hours"], sgdm["core_hours"]) == (1, 0, 2)
    assert (muon["runs"], muon["attempts"]) == (2, 2)
    assert muon["gpu_hours"] == pytest.approx(2 * 4, abs=0.01), "as asked for then, not as in the file now"
    assert muon["core_hours"] == pytest.approx(6 * 4, abs=0.01)
    assert muon["failed_gpu_hours"] == pytest.approx(2, abs=0.01) and muon["repeated_gpu_hours"] == 0
    note = told(store, spec, points)
    assert (note["time"]["gpu"], note["time"]["core"]) == pytest.approx((8, 26), abs=0.01)
    assert note["failed"]["gpu"] == pytest.approx(2, abs=0.01) and not note["repeated"]


def test_a_gpu_on_this_machine_counts_and_so_does_one_that_a_line_of_setup_asked_for(sweep):
    _, spec, store, points = sweep
    record = scored("digits", "completed", val_accuracy=0.9)
    times = {"began": "2026-01-31T00:00:00+00:00", "ended": "2026-01-31T01:00:00+00:00", "attempts": 1}
    record = dataclasses.replace(record, **times, environment={"device": "cuda"})
    found = {point.id: RunState(record.status, record=record) for point in points}
    assert hours(Bill(store, spec).of(points[:1], found)) == (1, 1)
    assert hours(Bill(store, spec).of(points[2:3], found)) == (2, 2), "two processes"
    submit(
        store,
        points,
        "8",
        {"timeout_min": 60, "cpus_per_task": 4, "setup": ["#SBATCH --gres=gpu:1 --nodes=9"]},
    )
    assert hours(Bill(store, spec).of(points[:1], found)) == (1, 4)


@pytest.mark.parametrize(("block", "wanted"), [(0, 1.5), (2, 6)])
def test_a_run_here_that_shares_a_gpu_takes_its_part_and_one_of_two_processes_both(sweep, block, wanted):
    _, spec, store, points = sweep
    alike = [
        dataclasses.replace(one, resources=dataclasses.replace(one.resources, runs_per_gpu=2))
        for one in spec.blocks
    ]
    own = points[block]
    finish(store, own, 3, "cuda")
    assert spent.blocks(store, dataclasses.replace(spec, blocks=alike), points)[own.block].gpu_hours == wanted


@pytest.mark.parametrize(
    ("block", "resources", "wanted"),
    [
        (0, {"gpus_per_node": 1, "cpus_per_task": 3}, (3, 9)),
        (2, {"gpus_per_node": 2, "cpus_per_task": 3, "processes": 2}, (6, 18)),
        (0, {"cpus_per_task": 3}, (0, 9)),
    ],
)
def test_a_run_takes_what_its_job_asked_for(sweep, block, resources, wanted):
    _, spec, store, points = sweep
    submit(store, points, "7", {"timeout_min": 60} | resources)
    own = points[block]
    finish(store, own, 3, "cpu" if wanted[0] == 0 else "cuda")
    assert hours(spent.blocks(store, spec, points)[own.block]) == wanted


def test_a_run_that_two_blocks_want_counts_once(sweep):
    _, spec, store, points = sweep
    finish(store, points[0], 1)
    twin = dataclasses.replace(points[0], block="muon")
    blocks = spent.blocks(store, spec, [*points, twin])
    assert [one.runs for one in blocks.values()] == [1, 0]


def test_before_the_first_run_status_says_nothing_of_it(sweep):
    _, spec, store, points = sweep
    assert told(store, spec, points) is None
