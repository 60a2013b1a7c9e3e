"""What a sweep has taken: attempts times what their jobs asked for, by block and in all."""

import dataclasses

import pytest

from htbench.harness.store import Store, submissions
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.screens import status
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


def spent(store, spec, points):
    """What `status` says of hours: of each block, and in all."""
    screen = status.read_screen(store, [(spec, points)])
    (section,) = status.make_report(screen).sections
    (tally,) = [note["spent"] for note in section.notes if note.kind == "tally"]
    return {one.block: (one.spent.gpu_hours, one.spent.core_hours) for one in screen.blocks}, tally


def test_a_job_counts_with_what_it_asked_for_and_other_runs_with_what_they_use(sweep):
    _, spec, store, points = sweep
    asked = {"timeout_min": 60, "nodes": 2, "gpus_per_node": 1, "cpus_per_task": 3, "processes": 2}
    submit(store, points[2:], "7", asked)
    submit(store, points[3:], "8", asked | {"gpus_per_node": 4})
    finish(store, points[0], 2)
    finish(store, points[2], 3, "cuda")
    die(store, points[3], "7_1", hours=1, reason="stopped")
    die(store, points[3], "8_0", hours=1, reason="oom")
    found, note = spent(store, spec, points)
    assert found["sgdm"] == (0, 2)
    wanted = (2 * 4 + 8, 6 * 5)  # as each job asked for then, not as in the file
    assert found["muon"] == pytest.approx(wanted, abs=0.01)
    assert (note["gpu"], note["core"]) == pytest.approx((16, 32), abs=0.01)


@pytest.mark.parametrize(("block", "wanted"), [(0, 1.5), (2, 6)])
def test_a_run_here_that_shares_a_gpu_takes_its_part_and_one_of_two_processes_both(sweep, block, wanted):
    _, spec, store, points = sweep
    alike = [
        dataclasses.replace(one, resources=dataclasses.replace(one.resources, runs_per_gpu=2))
        for one in spec.blocks
    ]
    finish(store, points[block], 3, "cuda")
    found, _ = spent(store, dataclasses.replace(spec, blocks=alike), points)
    assert found[points[block].block][0] == wanted


def test_a_gpu_that_an_option_of_sbatch_asked_for_counts(sweep):
    _, spec, store, points = sweep
    submit(store, points, "8", {"timeout_min": 60, "cpus_per_task": 4, "gres": "gpu:1"})
    finish(store, points[0], 1, "cuda")
    assert spent(store, spec, points)[0]["sgdm"] == (1, 4)


def test_a_run_that_two_blocks_want_counts_once_and_none_is_no_line(sweep):
    _, spec, store, points = sweep
    assert spent(store, spec, points)[1] is None
    finish(store, points[0], 1)
    found, _ = spent(store, spec, [*points, dataclasses.replace(points[0], block="muon")])
    assert found == {"sgdm": (0, 1), "muon": (0, 0)}
