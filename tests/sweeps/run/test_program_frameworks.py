"""Programs of other frameworks, swept as they are: scikit-learn, torchrun with two processes, JAX."""

import os
import signal

import pytest

from htbench.harness.store import Store, curve
from htbench.harness.store.points import read_points
from tests.helpers.sweeping import check_whole
from tests.helpers.toy_program import JAX, JAX_SPEC, TWO_PROCESSES, TWO_PROCESSES_SPEC, write_scikit_learn
from tests.helpers.waiting import wait_for


def write(folder, spec, code):
    (folder / "train.py").write_text(code)
    (folder / "sweep.yaml").write_text(spec)
    return folder / "sweep.yaml"


def kill_when(process, is_due):
    """Kill a sweep with all its processes at a moment."""
    wait_for(is_due)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def test_a_killed_sweep_of_scikit_learn_is_finished_and_has_a_table(htbench, tmp_path):
    spec = write_scikit_learn(tmp_path)
    process = htbench.start("sweep", "run", spec, "--workers", 1)
    kill_when(process, lambda: list(htbench.root.glob("runs/*/*/program/checkpoint.pkl")))
    done = htbench("sweep", "run", spec, "--workers", 2)
    assert done.returncode == 0, done.stderr
    check_whole(htbench.root, "sklearn-digits")
    points = read_points(htbench.root, "sklearn-digits")
    assert [point.stage for point in points].count("replicate") == 4
    for record in Store(htbench.root).records([point.key for point in points]).values():
        assert record.steps == 10 and 0.1 < record.metrics["test_loss"] < 2.3, "better than by chance"
    shown = htbench("table").stdout
    assert "sklearn-digits · mlp-64 · epochs=10: test loss ↓, 2 fresh seeds" in shown, shown


def test_two_processes_of_torchrun_are_one_run_with_one_record(htbench, tmp_path):
    spec = write(tmp_path, TWO_PROCESSES_SPEC, TWO_PROCESSES)
    process = htbench.start("sweep", "run", spec, "--workers", 1, PAUSE="0.5")
    kill_when(process, lambda: list(htbench.root.glob("runs/*/*/program/state.bin")))
    done = htbench("sweep", "run", spec, "--workers", 1)
    assert done.returncode == 0, done.stderr
    check_whole(htbench.root, "two")
    store = Store(htbench.root)
    keys = [point.key for point in read_points(htbench.root, "two")]
    assert sorted(store.last_attempt(key) for key in keys) == [1, 2]
    for key in keys:
        assert [row["step"] for row in curve.read(store.files(key).metrics)] == [*range(1, 9)]


@pytest.mark.slow
def test_the_muon_of_optax_stands_beside_its_adam(htbench, tmp_path):
    pytest.importorskip("optax")
    spec = write(tmp_path, JAX_SPEC, JAX)
    done = htbench("sweep", "run", spec, "--workers", 2, timeout=1200)  # each run compiles for seconds
    assert done.returncode == 0, done.stderr
    check_whole(htbench.root, "jax-digits")
    shown = htbench("table").stdout
    assert "digits-jax · mlp: test loss ↓, 2 fresh seeds" in shown and "muon" in shown, shown
