"""Several processes as people start them: `htbench run`, torchrun's variables, the local pool, a search."""

import signal
import socket

import psutil
import pytest

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import EXIT_INTERRUPTED, UsageError
from htbench.harness.parallel.processes import _find_free_port
from htbench.harness.store import Store
from htbench.harness.store.points import SEARCH, Point, read_points
from htbench.harness.store.submissions import Submission
from htbench.sweeps.cluster import submit
from htbench.sweeps.cluster.job_array import write_array_script as sbatch_text
from htbench.sweeps.cluster.snapshot import Snapshot
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.run.pool import Pool
from htbench.sweeps.spec import sweep_file as specs
from htbench.sweeps.spec.resources import Resources
from tests.helpers.command import Htbench
from tests.helpers.in_ranks import LM, folder
from tests.helpers.sweeping import trials_by_state
from tests.helpers.waiting import wait_for

GRID = """
name: pair
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, processes: 2, evaluation.every: 2}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: {low: 0.001, high: 1, log: true, num: 2}}}
"""
SEARCHED = (
    GRID + "search: {mode: random, trials: 5, pruner: {asha: {min_resource: 2, reduction_factor: 2}}}\n"
)


def words(settings):
    return [f"{name}={value}" for name, value in settings.items()]


def test_one_command_starts_all_and_torchrun_s_variables_join_them(htbench):
    settings = LM | {"steps": 150, "checkpoint.every_steps": 5}
    process = htbench.start("run", *words(settings | {"processes": 2}))
    checkpoint = folder(settings, htbench.root) / "checkpoint.pt"
    wait_for(checkpoint.exists)
    process.send_signal(signal.SIGTERM)  # to the one that people see
    _, errors = process.communicate(timeout=120)
    assert process.returncode == EXIT_INTERRUPTED, errors
    assert errors.count("goes on from there") == 1 and "Traceback" not in errors

    at = meeting(_find_free_port())
    both = [
        htbench.start("run", *words(settings), RANK=str(rank), LOCAL_RANK=str(rank), **at)
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert "completed after 150 steps" in outputs[0][0] and outputs[1][0] == ""
    record = Store(htbench.root).record(run_key(resolve_config(settings)))
    assert record.attempts == 2 and record.environment["world_size"] == 2


@pytest.mark.slow
def test_a_signal_while_the_processes_start_is_heard_when_they_can_save(htbench):
    fresh = Htbench(htbench.root, fresh=True)  # which takes seconds to start two processes
    process = fresh.start("run", *words(LM | {"steps": 150, "processes": 2}))
    starter = psutil.Process(process.pid)
    wait_for(lambda: "spawn_main" in str([child.cmdline() for child in starter.children()]), every=0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == EXIT_INTERRUPTED, errors
    assert "stopped at step 1 of 150" in errors or "stopped while it waited for 1 of 2" in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_for_a_process_that_never_starts(htbench, number):
    port = _find_free_port()
    process = htbench.start("run", *words(LM), RANK="0", **meeting(port))
    wait_for(lambda: listens(port))
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == EXIT_INTERRUPTED
    assert f"stopped while it waited for 1 of 2 processes (RANK=1) at 127.0.0.1:{port}." in errors


@pytest.mark.parametrize(
    ("changes", "variables", "sentence"),
    [
        ({"steps": 0}, {}, "steps"),
        ({"batch_size": 15}, {}, "batch_size=15 can't be divided among the 2 processes"),
        ({"batch_size": 10**6}, {}, "is more than the training samples"),
        ({}, {"MASTER_ADDR": ""}, "WORLD_SIZE=2 is set without MASTER_ADDR, which say"),
    ],
)
def test_what_can_be_refused_is_refused_before_a_process_waits(htbench, changes, variables, sentence):
    at = {"RANK": "1"} | meeting(_find_free_port()) | variables
    done = htbench("run", *words(LM | changes), timeout=120, **at)
    assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("\n") == 1, done.stderr


def meeting(port):
    return {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_search_of_runs_on_two_processes(htbench, write_spec):
    done = htbench("sweep", "run", write_spec(SEARCHED), "--workers", "1")
    assert done.returncode == 0, done.stderr
    points = read_points(htbench.root, "pair")
    records = Store(htbench.root).records([point.key for point in points])
    assert len(records) == 5 and {record.environment["world_size"] for record in records.values()} == {2}
    assert {record.attempts for record in records.values()} == {1}
    statuses = [record.status for record in records.values()]
    found = {state: len(keys) for state, keys in trials_by_state(htbench.root).items()}
    assert found == {"COMPLETE": statuses.count("completed"), "PRUNED": statuses.count("pruned")}


def test_a_run_on_two_processes_takes_two_gpus(monkeypatch, tmp_path, tiny):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,9")
    settings = tiny | {"processes": 2, "device": "cpu"}
    pool = Pool(tmp_path, workers=3)
    pool.start([Point("tiny", "only", SEARCH, run_key(resolve_config(settings)), settings)])
    (worker,) = pool.running.values()
    assert worker.gpu == "7,9" and pool.free_gpus == ["7"]
    assert pool.has_room_for(1) and not pool.has_room_for(2)
    ended = []
    while pool.running:
        ended += pool.finished(timeout=1.0)
    assert ended == [(run_key(resolve_config(settings)), 0)] and sorted(pool.free_gpus) == ["7", "7", "9"]
    assert pool.has_room_for(4), "alone it may have more than there is room for"


# --- what jobs ask for ---


def planned(write_spec, text):
    return search_points(specs.load(write_spec(text)))


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        ("{nodes: 3}", "block 'sgdm': processes=4 can't be spread evenly over nodes=3"),
        (
            "{nodes: 2, gpus_per_node: 4}",
            "gpus_per_node=4 does not suit processes=4 on nodes=2.*must be gpus_per_node=2 or processes=8",
        ),
        ("{nodes: 0}", "nodes in resources must be a whole number from 1, not 0"),
    ],
)
@pytest.mark.parametrize("text", [GRID, SEARCHED], ids=["grid", "search"])
def test_nodes_and_gpus_must_suit_the_processes(write_spec, resources, sentence, text):
    text = text.replace("processes: 2", "processes: 4") + f"resources: {resources}\n"
    with pytest.raises(UsageError, match=sentence):
        planned(write_spec, text)


def test_processes_must_divide_the_batch(write_spec):
    with pytest.raises(UsageError, match="processes=3 must divide batch_size=16"):
        planned(write_spec, GRID.replace("processes: 2", "processes: 3"))
    with pytest.raises(
        UsageError, match=r"micro_batch=16 must divide batch_size=16 / processes=2 \(which is 8"
    ):
        resolve_config(LM | {"processes": 2, "micro_batch": 16})


def test_runs_of_other_numbers_of_processes_go_into_other_arrays(write_spec, tmp_path):
    text = GRID.splitlines()[:4] + [
        "  - {name: two, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.1, 0.2]}}",
        "  - {name: four, set: {optimizer.name: sgdm, processes: 4}, space: {optimizer.lr: [0.1]}}",
        "resources: {nodes: 2}",
    ]
    spec = specs.load(write_spec("\n".join(text)))
    arrays = submit.group_into_arrays(spec, [one.point for one in search_points(spec)], largest=10)
    assert [(len(array.points), array.processes) for array in arrays] == [(2, 2), (1, 4)]
    asked = [
        sbatch_text(
            tmp_path,
            Snapshot(tmp_path, ""),
            Submission("pair", "w", ("a",)),
            array.resources,
            array.processes,
        )
        for array in arrays
    ]
    for lines, tasks in zip(asked, (1, 2), strict=True):
        assert f"#SBATCH --ntasks-per-node={tasks}\n" in lines and "#SBATCH --nodes=2\n" in lines
        assert "--kill-on-bad-exit=1" in lines
    assert arrays[1].resources.asked(4) == {"timeout_min": 60, "nodes": 2, "processes": 4}
    assert Resources().asked() == {"timeout_min": 60}
