"""The local pool: how many workers, which GPU for whom."""

import collections
import os
import signal
from pathlib import Path

import pytest

from htbench import sweeps
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config, to_settings
from htbench.harness.errors import RunFailedError
from htbench.harness.store import Store
from htbench.harness.store.points import SEARCH, Point
from htbench.harness.system import machine
from htbench.sweeps.run import pool as pools
from htbench.sweeps.run import runner
from htbench.sweeps.run.pool import Pool
from htbench.sweeps.run.runner import Runner
from htbench.sweeps.spec import sweep_file
from tests.helpers.sweeping import SPEC


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (4, 4), (64, 8)])
def test_as_many_workers_as_cores_but_not_more_than_eight(monkeypatch, cores, expected):
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    assert machine.default_workers() == expected


@pytest.mark.parametrize(("told", "expected"), [("3,5", ["3", "5"]), ("", []), ("GPU-1a", ["GPU-1a"])])
def test_gpus_are_those_that_we_are_told(monkeypatch, told, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
    assert pools.visible_gpus() == expected


@pytest.mark.parametrize(
    ("told", "variable", "expected"),
    [
        ({"ROCR_VISIBLE_DEVICES": "0,1"}, "ROCR_VISIBLE_DEVICES", ["0", "1"]),
        ({"GPU_DEVICE_ORDINAL": "2"}, "GPU_DEVICE_ORDINAL", ["2"]),
        # Where several are set, the outer one stays as it is: the inner one counts among what it leaves.
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "0,1"}, "HIP_VISIBLE_DEVICES", ["0", "1"]),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES", ["0"]),
        ({"ROCR_VISIBLE_DEVICES": ""}, "ROCR_VISIBLE_DEVICES", []),
    ],
)
def test_gpus_of_amd_are_told_by_variables_of_their_own(monkeypatch, told, variable, expected):
    for name in machine.GPU_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert (machine.gpu_variable(), machine.visible_gpus()) == (variable, expected)
    assert machine.has_gpu() == bool(expected)


def test_runs_take_gpus_from_a_free_list_and_give_them_back(monkeypatch, tmp_path, tiny):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,9")
    pool = Pool(tmp_path)
    assert pool.size == 2 and pool.free_gpus == ["7", "9"]
    assert Pool(tmp_path, workers=3).free_gpus == ["7", "9", "7"]
    assert Pool(tmp_path, workers=1).free_gpus == ["7", "9"], "a run of two processes needs both"
    for seed in (1, 2):
        config = resolve_config(tiny | {"seed": seed, "device": "cpu"})
        pool.start([Point("tiny", "only", SEARCH, run_key(config), to_settings(config))])
    assert not pool.has_room_for(1) and {worker.gpu for worker in pool.running.values()} == {"7", "9"}
    ended = []
    while pool.running:
        ended += pool.finished(timeout=1.0)
    assert [status for _, status in ended] == [0, 0] and sorted(pool.free_gpus) == ["7", "9"]
    assert len(list(tmp_path.glob("runs/*/*/record.json"))) == 2


DIES = """
import os, pathlib, signal, sys

left = pathlib.Path(__file__).with_name("deaths")
if "multiprocessing.forkserver" in sys.orig_argv[-1] and (deaths := int(left.read_text())):
    left.write_text(str(deaths - 1))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_where_servers_are_killed_a_run_starts_from_the_next_one(monkeypatch, tmp_path, tiny, capfd):
    (tmp_path / "sitecustomize.py").write_text(DIES)
    deaths = tmp_path / "deaths"
    deaths.write_text("99")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pools.forkserver._forkserver._stop()  # that of other tests
    config = resolve_config(tiny)
    point = Point("tiny", "only", SEARCH, run_key(config), to_settings(config))
    pool = Pool(tmp_path / "store", workers=1)
    with pytest.raises(RunFailedError, match="was killed 3 times in a row"):
        pool.start([point])
    assert not pool.running
    deaths.write_text("2")
    pool.start([point])
    assert "another one takes its place" in capfd.readouterr().err
    os.kill(pools.forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    while not (ended := pool.finished(timeout=1.0)):
        pass
    assert ended == [(point.id, -signal.SIGKILL)], "nobody knows how it ends, so it is tried again"


def test_tests_see_no_gpu():
    import torch

    assert os.environ[machine.gpu_variable()] == "" and torch.cuda.device_count() == 0


@pytest.mark.parametrize(("device", "on_cpu"), [("cpu", True), ("auto", False)])
def test_runs_on_the_cpu_are_as_many_as_cores_whatever_gpus_there_are(
    monkeypatch, tmp_path, write_spec, device, on_cpu
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,9")
    made = []

    def noted(*args, **named):
        made.append(Pool(*args, **named))
        return made[0]

    monkeypatch.setattr(runner, "Pool", noted)
    monkeypatch.setattr(Runner, "_work", lambda self, pool: None)
    spec = sweep_file.load(write_spec(SPEC), [f"device={device}"])
    Runner(Store(tmp_path / "store"), [spec], None, quiet=True).run()
    (pool,) = made
    assert pool.size == (machine.default_workers() if on_cpu else 2)
    assert pool.free_gpus == ([] if on_cpu else ["7", "9"])


SMALL = """
name: small
base: {task: digits, model: resnet-nano, steps: 1, batch_size: 16}
seeds: [0, 1]
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03]}%s}
  - {name: muon, set: {optimizer.name: muon}, space: {optimizer.lr: [0.03]}%s}
"""


@pytest.mark.parametrize(
    ("blocks", "gpus", "workers", "most"),
    [
        ((", resources: {runs_per_gpu: 3}", ", resources: {runs_per_gpu: 2}"), "7", None, {"7": 2}),
        # `--workers` counts: fewer, and more.
        ((", resources: {runs_per_gpu: 2}", ", resources: {runs_per_gpu: 2}"), "7", 1, {"7": 1}),
        (("", ""), "7,9", 3, {"7": 2, "9": 1}),
    ],
)
def test_runs_share_gpus_as_the_file_says(monkeypatch, tmp_path, write_spec, blocks, gpus, workers, most):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    began, on, highest = Pool.start, {}, collections.Counter()

    def start(pool, points):
        began(pool, points)
        on.update((point.id, pool.running[points[0].id].gpu) for point in points)
        for gpu, runs in collections.Counter(worker.gpu for worker in pool.running.values()).items():
            highest[gpu] = max(highest[gpu], runs)

    monkeypatch.setattr(Pool, "start", start)
    store = Store(tmp_path / "store")
    sweep = Runner(store, [sweep_file.load(write_spec(SMALL % blocks))], workers, quiet=True)
    sweep.run()
    assert not sweep.unfinished and len(on) == len(store.records(list(on))) == 4
    assert highest == most, "each sees one GPU, and on none are more than it takes"


@pytest.mark.parametrize("folder", ["demo", "nano", "quick", "p_family", "spectra"])
def test_what_is_too_small_for_a_gpu_asks_for_the_cpu(folder):
    files = sorted(Path(sweeps.__path__[0], folder).glob("*.yaml"))
    assert files
    for file in files:
        assert sweep_file.load(file).base["device"] == "cpu", file
