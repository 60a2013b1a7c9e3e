"""The training loop on a real tiny run: resume bit for bit, accumulation, evaluation, divergence, damage."""

import errno
import json
import os
import resource
import shutil
import signal
import threading
import zipfile
from pathlib import Path

import pytest
import torch

from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import RunFailedError, StoppedError, UsageError
from htbench.harness.parallel.group import Group
from htbench.harness.show.status import Status
from htbench.harness.store import Reason, Store
from htbench.harness.system import slurm
from htbench.harness.train import claim, run
from htbench.harness.train.monitor import Monitor
from tests.helpers import squeue as stand_in
from tests.helpers.command import TINY
from tests.helpers.interrupting import assert_resumes, finish, interrupt

LM = {"task": "pydocs", "model": "llama-nano"}


@pytest.mark.parametrize(("workload", "name"), [({}, "adamw"), (LM, "htmuon")])
def test_a_run_stopped_twice_gives_the_same_bits(tmp_path, tiny, workload, name):
    rule = {"optimizer.name": name, "optimizer.lr": 0.02, "evaluation.every": 4}
    _, curve = assert_resumes(tiny | workload | rule, tmp_path, 3, 6)
    assert len([row for row in curve if "loss" in row]) == 8


def test_a_finished_run_is_not_trained_again(tmp_path, tiny):
    first, _ = finish(resolve_config(tiny), tmp_path)
    again, _ = finish(resolve_config(tiny), tmp_path)
    assert again == first


def test_accumulation_equals_the_whole_batch(tmp_path, tiny):
    """On the language model, which has no batch statistics: equal up to the order of float32 sums."""
    tiny |= LM | {"optimizer.name": "adamw", "optimizer.lr": 1e-3}
    whole, whole_curve = finish(resolve_config(tiny), tmp_path / "whole")
    parts, parts_curve = finish(resolve_config(tiny | {"micro_batch": 4}), tmp_path / "parts")
    assert parts.key == whole.key
    assert [row["loss"] for row in parts_curve if "loss" in row] == pytest.approx(
        [row["loss"] for row in whole_curve if "loss" in row], rel=1e-5
    )
    assert parts.metrics["val_loss"] == pytest.approx(whole.metrics["val_loss"], rel=1e-5)


def test_clipping_bounds_the_step(tmp_path, tiny):
    free, _ = finish(resolve_config(tiny), tmp_path)
    clipped, _ = finish(resolve_config(tiny | {"grad_clip": 1e-6}), tmp_path)
    assert abs(clipped.metrics["train_loss"] - free.metrics["train_loss"]) > 1e-3


def test_divergence_is_a_result(tmp_path, tiny):
    record, curve = finish(
        resolve_config(tiny | {"optimizer.lr": 1e30, "schedule.warmup": 0, "log_every": 5}), tmp_path
    )
    assert record.status == "diverged" and record.divergence == {"kind": "loss_not_finite"}
    losses = [row["loss"] for row in curve if "loss" in row]
    assert losses[-1] is None and None not in losses[:-1] and record.steps == len(losses)
    assert Store(tmp_path).state(record.key).status.has_ended


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Config and outcome of a run, and a store in which it was stopped after four steps."""
    config, root = resolve_config(TINY | {"log_every": 1}), tmp_path_factory.mktemp("stopped")
    interrupt(config, root / "parts", 4)
    return config, finish(config, root / "whole"), root / "parts"


@pytest.fixture
def spoil(stopped, tmp_path):
    """Let `change(path)` spoil a file of the stopped run; it then ends with the numbers of a whole one."""
    config, (whole, whole_curve), root = stopped
    shutil.copytree(root, tmp_path / "parts")
    folder = Store(tmp_path / "parts").run_folder(whole.key)

    def spoil(name, change):
        change(folder / name)
        parts, parts_curve = finish(config, tmp_path / "parts")
        assert (parts.metrics, parts_curve) == (whole.metrics, whole_curve)
        return (folder / "log.txt").read_text()

    return spoil


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty", "bitflip"])
def test_a_damaged_checkpoint_costs_time_only(spoil, damage):
    def change(path):
        with zipfile.ZipFile(path) as archive:
            tensor = max(archive.infolist(), key=lambda member: member.file_size)
        data = bytearray(path.read_bytes())
        data[tensor.header_offset + tensor.file_size // 2] ^= 0xFF
        path.write_bytes(
            {"truncated": data[:1000], "garbage": b"\x00garbage" * 99, "empty": b"", "bitflip": data}[damage]
        )

    assert "starting from the first step" in spoil("checkpoint.pt", change)


OTHER_CODE = {
    "progress": lambda saved: saved["loop"].update(pace=saved["loop"].pop("times")),
    "weights": lambda saved: saved.update(model={f"net.{name}": x for name, x in saved["model"].items()}),
    "groups": lambda saved: saved["optimizer"]["param_groups"].pop(),
}


@pytest.mark.parametrize("change", OTHER_CODE)
def test_a_checkpoint_of_other_code_costs_time_only(spoil, change):
    def write(path):
        saved = torch.load(path, weights_only=True)
        OTHER_CODE[change](saved)
        torch.save(saved, path)

    assert "starting from the first step" in spoil("checkpoint.pt", write)


def test_a_checkpoint_that_can_not_be_read_now_is_not_given_up(tmp_path, tiny, monkeypatch):
    config, store = resolve_config(tiny | {"log_every": 1}), Store(tmp_path)
    interrupt(config, tmp_path, 4)
    proper = zipfile.ZipFile

    def stale(file, *args, **options):
        if Path(str(file)).name == "checkpoint.pt":
            raise OSError(errno.ESTALE, "Stale file handle")
        return proper(file, *args, **options)

    monkeypatch.setattr(zipfile, "ZipFile", stale)
    with pytest.raises(RunFailedError, match=r"\(stopped\) with OSError: .*Stale"):
        run.run(resolved(config), store)
    monkeypatch.setattr(zipfile, "ZipFile", proper)
    record = run.run(resolved(config), store)
    assert record.attempts == 3
    assert "going on from step" in (store.run_folder(record.key) / "log.txt").read_text()


@pytest.mark.parametrize("damage", [b"", b'{"step": 1, "lo', b"\xff\xfe\x00garbage\n"])
def test_a_damaged_curve_is_made_anew(spoil, damage):
    spoil("metrics.jsonl", lambda path: path.write_bytes(damage))


def test_a_bug_in_a_run_is_a_failure_that_retry_forgives(tmp_path, tiny, monkeypatch):
    config, store = resolve_config(tiny), Store(tmp_path)
    monkeypatch.setattr(run.Training, "_train", lambda self, metrics: 1 / 0)
    with pytest.raises(RunFailedError, match=r"ended \(error\) with ZeroDivisionError"):
        run.run(resolved(config), store)
    monkeypatch.undo()
    with pytest.raises(RunFailedError, match=r"failed \(error\): ZeroDivisionError"):
        run.run(resolved(config), store)
    assert store.reset_failure(run_key(config))
    assert run.run(resolved(config), store).attempts == 2


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (MemoryError("no memory"), Status.FAILED, "oom"),
        (torch.OutOfMemoryError("CUDA out of memory"), Status.FAILED, "oom"),
        (OSError(28, "No space left on device"), Status.WAITING, None),
    ],
)
def test_the_reason_of_a_failure(tmp_path, tiny, monkeypatch, error, kind, reason):
    def fail(self, metrics):
        raise error

    monkeypatch.setattr(run.Training, "_train", fail)
    with pytest.raises(RunFailedError):
        run.run(resolved(resolve_config(tiny)), Store(tmp_path))
    state = Store(tmp_path).state(run_key(resolve_config(tiny)))
    assert (state.status, state.reason) == (kind, reason) and str(error) in state.message


def test_a_checkpoint_for_which_there_is_no_room_is_no_failure_of_the_run(tmp_path, tiny):
    config, store = resolve_config(tiny | {"checkpoint.every_steps": 3}), Store(tmp_path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
    try:
        with pytest.raises(RunFailedError, match=r"ended \(stopped\) with OSError: .*File too large"):
            run.run(resolved(config), store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert store.state(run_key(config)).status is Status.WAITING
    assert run.run(resolved(config), store).attempts == 2


def test_changed_data_is_refused(tmp_path, tiny):
    with pytest.raises(UsageError, match="has changed since"):
        run.run(resolved(resolve_config(tiny | {"data_fingerprint": "0" * 16})), Store(tmp_path))


def test_a_signal_while_the_processes_agree_is_for_the_next_step(tmp_path, tiny, monkeypatch):
    monitor, agree, said = Monitor(), Group.any, []

    def agree_meanwhile(group, wishes):
        agreed = agree(group, wishes)
        if not said:
            said.append(monitor._request_stop(signal.SIGTERM, None))
        return agreed

    monkeypatch.setattr(Group, "any", agree_meanwhile)
    with pytest.raises(StoppedError, match="stopped at step 2 of 8"):
        run.run(resolved(resolve_config(tiny)), Store(tmp_path), monitor)
    assert monitor.signals == {signal.SIGTERM}


def test_a_batch_larger_than_the_data_is_refused(tmp_path, tiny):
    with pytest.raises(UsageError, match=r"batch_size=1000000 is more than the \d+ training samples"):
        run.run(resolved(resolve_config(tiny | {"batch_size": 1000000})), Store(tmp_path))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(tmp_path, tiny):
    with pytest.raises(UsageError, match="no GPU"):
        run.run(resolved(resolve_config(tiny | {"device": "cuda"})), Store(tmp_path))


def test_the_record_is_plain_and_says_where_it_was_made(tmp_path, tiny):
    record, _ = finish(resolve_config(tiny), tmp_path)
    stored = json.loads((Store(tmp_path).run_folder(record.key) / "record.json").read_text())
    assert stored["config"]["optimizer"]["lr"] == 0.1 and stored["key"] == record.key
    assert {"code", "torch", "cpu", "host", "data_fingerprint"} <= stored["environment"].keys()
    assert record.cost["samples"] == 8 * 16 and record.steps == 8 and record.seconds_per_step > 0


# --- an owner whose job is ending ---


@pytest.fixture
def ending(tmp_path, monkeypatch):
    """A store whose owners live; this process is part of job 7_0, which the queue shows as ending."""
    row = stand_in.row("7_0", "COMPLETING")
    monkeypatch.setenv("PATH", f"{stand_in.install(tmp_path / 'bin', row)}:{os.environ['PATH']}")
    for name, value in {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm, "_remembered", {})
    monkeypatch.setattr(claim, "PAUSE", 0.02)
    return Store(tmp_path / "store", alive=lambda owner, heartbeat: True)


def leave_to_an_ending_job(store, config, monkeypatch):
    attempt = store.claim(run_key(config), "")
    for name in ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name)
    return attempt


def test_a_job_waits_for_the_one_before_it_that_is_ending(ending, tiny, monkeypatch):
    config = resolve_config(tiny)
    before = leave_to_an_ending_job(ending, config, monkeypatch)
    threading.Timer(0.5, lambda: before.end(Reason.STOPPED)).start()
    assert run.run(resolved(config), ending, Monitor(patience=60)).attempts == 2


def test_it_does_not_wait_for_ever_nor_for_one_at_work(ending, tiny, monkeypatch, tmp_path):
    config = resolve_config(tiny)
    leave_to_an_ending_job(ending, config, monkeypatch)
    with pytest.raises(RunFailedError, match="is being trained by .* job 7_0"):
        run.run(resolved(config), ending, Monitor(patience=0.1))
    stand_in.install(tmp_path / "bin", stand_in.row("7_0", "RUNNING"))
    slurm._remembered.clear()
    with pytest.raises(RunFailedError, match="is being trained by .* job 7_0"):
        run.run(resolved(config), ending, Monitor(patience=1e9))


def test_a_warning_while_it_waits_stops_it(ending, tiny, monkeypatch):
    config, monitor = resolve_config(tiny), Monitor(patience=1e9)
    leave_to_an_ending_job(ending, config, monkeypatch)
    monitor.stop_requested = True
    with pytest.raises(StoppedError):
        run.run(resolved(config), ending, monitor)
    assert ending.last_attempt(run_key(config)) == 1
