"""Runs on several processes: the numbers of a single one, whatever happens to one of them."""

import json
import os
import signal
from contextlib import nullcontext

import pytest
import torch

from htbench import models
from htbench.harness import tasks
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.estimate import for_record
from htbench.harness.errors import PeerLostError, UsageError
from htbench.harness.parallel import device
from htbench.harness.parallel import group as distributed
from htbench.harness.parallel.group import Group
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.train.run import check_processes
from htbench.sweeps.run.execute import EXIT_DONE, EXIT_ENDED, EXIT_STOPPED
from tests.helpers.in_ranks import LM, assert_close, codes, end, folder, result, start, together, wait_for
from tests.helpers.interrupting import finish, interrupt

ALL = {"grad_clip": 0.5, "micro_batch": 4, "evaluation.every": 4, "checkpoint.keep_weights": True}
MUON = {"optimizer.name": "muon", "optimizer.lr": 0.02, "optimizer.ns_dtype": "float32"}
SOPHIA = {"optimizer.name": "sophia", "optimizer.lr": 2e-3, "optimizer.curvature_interval": 2}
LONG = LM | {"steps": 100, "checkpoint.every_steps": 5, "log_every": 5}


def first_attempt(settings, root):
    return json.loads((folder(settings, root) / "attempts" / "1.json").read_text())


@pytest.fixture(scope="module")
def calm_root(tmp_path_factory):
    """A store with the long run, by a single process, undisturbed."""
    root = tmp_path_factory.mktemp("calm")
    finish(resolve_config(LONG), root)
    return root


@pytest.fixture
def roots(tmp_path, calm_root):
    """Two stores whose data is prepared already."""
    made = [tmp_path / name for name in ("one", "other")]
    for root in made:
        root.mkdir()
        (root / "cache").symlink_to(calm_root / "cache")
    return made


@pytest.fixture
def root(roots):
    return roots[0]


# --- the same numbers ---


@pytest.mark.parametrize(("size", "changes"), [(4, ALL | MUON), (2, ALL | SOPHIA)], ids=["muon", "sophia"])
def test_the_numbers_are_those_of_a_single_process(roots, size, changes):
    settings = LM | changes
    one = finish(resolve_config(settings), roots[0], count=for_record)
    many = together(size, settings, roots[1])
    assert_close(many, one)
    assert many[0].environment["world_size"] == size and many[0].cost == one[0].cost
    weights = [torch.load(folder(settings, root) / "weights.pt", weights_only=True) for root in roots]
    assert weights[0].keys() == weights[1].keys(), "no prefix of a wrapper"
    for name in weights[0]:
        torch.testing.assert_close(weights[1][name], weights[0][name], rtol=1e-3, atol=1e-5)


def test_batch_statistics_are_those_of_each_process_and_split_the_key(roots, tiny):
    shared, halves = tiny | {"processes": 2, "checkpoint.keep_weights": True}, tiny | {"micro_batch": 8}
    assert len({run_key(resolve_config(settings)) for settings in (tiny, shared, halves)}) == 3
    record, curve = together(2, shared, roots[0])
    curves = [curve, finish(resolve_config(halves), roots[1])[1]]
    losses = [[row["loss"] for row in curve if "loss" in row] for curve in curves]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)

    task = tasks.build("digits", cache=roots[0] / "cache", batch_size=16, data_seed=0)
    offered = {name: task.model_options[name] for name in ("classes", "in_channels")}
    model = models.build("resnet-nano", **offered)
    model.load_state_dict(torch.load(folder(shared, roots[0]) / "weights.pt", weights_only=True))
    figures = task.evaluate(model, "val", 16, torch.device("cpu"))
    assert record.metrics["val_loss"] == pytest.approx(figures["loss"], rel=1e-5), "all used the leader's"


def test_a_stop_that_one_process_wants_stops_all_and_costs_no_bit(roots):
    settings = LM | MUON | {"log_every": 1}
    whole = together(4, settings, roots[0])
    assert end(start(4, settings, roots[1], "stop the last", 3)) == EXIT_STOPPED
    assert first_attempt(settings, roots[1])["outcome"]["reason"] == "stopped"
    parts = together(4, settings, roots[1])
    assert parts[0].attempts == 2
    assert (parts[0].metrics, parts[1]) == (whole[0].metrics, whole[1])


def test_another_number_of_processes_goes_on(roots):
    settings = LM | {"log_every": 1}
    one = finish(resolve_config(settings), roots[0])
    interrupt(resolve_config(settings), roots[1], 3)
    assert end(start(2, settings, roots[1], "stop the last", 6)) == EXIT_STOPPED
    more = finish(resolve_config(settings), roots[1])
    assert more[0].attempts == 3
    assert_close(more, one)


# --- what happens to one of them ---


def test_a_signal_to_one_process_saves_and_the_leader_knows_which(root):
    ranks = start(2, LONG, root)
    wait_for(folder(LONG, root) / "metrics.jsonl", ranks)
    os.kill(ranks.processes[1].pid, signal.SIGUSR2)
    assert end(ranks) == EXIT_STOPPED and codes(ranks) == [EXIT_STOPPED, EXIT_DONE]
    assert (root / "signals-0").read_text() == str(int(signal.SIGUSR2))
    assert (folder(LONG, root) / "checkpoint.pt").exists()
    assert Store(root).state(run_key(resolve_config(LONG))).status is Status.WAITING


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_other_and_the_run_goes_on(root, calm_root, victim):
    ranks = start(2, LONG, root)
    wait_for(folder(LONG, root) / "checkpoint.pt", ranks)
    os.kill(ranks.processes[victim].pid, signal.SIGKILL)
    assert end(ranks) == -signal.SIGKILL, "so that the pool starts it again"
    assert codes(ranks)[1 - victim] == EXIT_ENDED, "by itself: it need not be killed"
    assert first_attempt(LONG, root)["outcome"] is None, "as if all of it had been killed"
    again = together(2, LONG, root)
    assert again[0].attempts == 2 and "going on from step" in (folder(LONG, root) / "log.txt").read_text()
    assert_close(again, result(LONG, calm_root))


def test_whoever_fails_writes_down_why(root):
    ranks = start(2, LM, root, "no memory for the last", 4)
    assert end(ranks) == EXIT_ENDED and codes(ranks) == [EXIT_ENDED] * 2
    state = Store(root).state(run_key(resolve_config(LM)))
    assert (state.status, state.reason) == (Status.FAILED, "oom") and "made-up" in state.message
    assert "ended: (oom) OutOfMemoryError: a made-up lack of memory" in (root / "said-0").read_text()
    assert "process 1: the run ended: oom" in (folder(LM, root) / "log.txt").read_text()
    assert end(start(2, LM, root)) == EXIT_ENDED
    assert Store(root).last_attempt(run_key(resolve_config(LM))) == 1, "a failure is not tried again"


def test_a_run_taken_over_is_given_up_by_all(root):
    ranks = start(2, LONG, root)
    wait_for(folder(LONG, root) / "checkpoint.pt", ranks)
    (folder(LONG, root) / "attempts" / "2.json").write_text("{}")
    assert end(ranks) == EXIT_ENDED and codes(ranks) == [EXIT_ENDED] * 2
    assert "was taken over from attempt 1" in (root / "said-0").read_text()
    assert (root / "said-0").read_text() == (root / "said-1").read_text()


def test_a_pruned_run_is_over_for_all(root):
    settings = LM | {"evaluation.every": 2}
    ranks = start(2, settings, root, "prune", 4)
    assert end(ranks) == EXIT_DONE and codes(ranks) == [EXIT_DONE] * 2
    record, _ = result(settings, root)
    assert (record.status, record.steps) == ("pruned", 4)


def test_a_divergence_is_seen_by_all(root):
    settings = LM | {"optimizer.lr": 1e30, "schedule.warmup": 0}
    assert together(2, settings, root)[0].status == "diverged"


def test_a_finished_run_is_not_trained_again_and_a_live_one_left_alone(root):
    ranks = start(2, LONG, root)
    wait_for(folder(LONG, root) / "metrics.jsonl", ranks)
    others = start(2, LONG, root)
    assert end(others) == EXIT_ENDED and codes(others) == [EXIT_ENDED] * 2
    assert "is being trained by" in (root / "said-0").read_text()
    assert (root / "said-0").read_text() == (root / "said-1").read_text()
    assert end(ranks) == EXIT_DONE
    assert together(2, LONG, root)[0].attempts == 1


# --- what can't be ---


@pytest.mark.parametrize(
    ("change", "size", "sentence"),
    [
        ({"processes": 2}, 1, "'resnet-nano', which has BatchNorm.*processes=2, but 1 were started"),
        ({}, 2, "'resnet-nano', which has BatchNorm.*processes=1, but 2 were started"),
        ({"task": "pydocs", "model": "llama-nano"}, 3, "batch_size=16 can't be divided among the 3"),
    ],
)
def test_runs_that_can_t_be_made_by_so_many_processes(tiny, change, size, sentence):
    with pytest.raises(UsageError, match=sentence):
        check_processes(resolved(resolve_config(tiny | change)), size)


def test_models_without_batch_statistics_take_the_processes_that_there_are():
    for size in (1, 2):
        check_processes(resolved(resolve_config(LM | {"processes": 4})), size)
    assert run_key(resolve_config(LM | {"processes": 4})) == run_key(resolve_config(LM))


class Sees(Group):
    """A group whose processes see these GPUs."""

    def all_gather(self, value):
        return [("here", gpu, None) for gpu in self.gpus]


@pytest.mark.parametrize(
    ("gpus", "sentence"),
    [
        (["a", "b"], None),
        (["", ""], None),
        (["a", "a"], "2 processes and 1 GPU, .* needs its own: use processes=1"),
        (["a", ""], "2 processes and 1 GPU,"),
        (["a", "b", "c", "a"], "4 processes and 3 GPUs, .* use processes=3"),
    ],
)
def test_each_process_needs_a_gpu_of_its_own(gpus, sentence):
    group = Sees(0, len(gpus))
    object.__setattr__(group, "gpus", gpus)
    with pytest.raises(UsageError, match=sentence) if sentence else nullcontext():
        device.choose("auto", group)


@pytest.mark.parametrize(
    "error, lost",
    [
        (RuntimeError("Connection closed by peer"), True),  # gloo
        (torch.distributed.DistBackendError("ncclRemoteError: a remote process exited or ..."), True),
        (torch.distributed.DistStoreError("wait timeout"), True),
        (torch.distributed.DistBackendError("ncclUnhandledCudaError: call failed"), False),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
    ],
)
def test_a_lost_process_is_told_from_our_own_trouble(monkeypatch, error, lost):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(torch.distributed, "all_reduce", fails)
    with pytest.raises(PeerLostError if lost else type(error)):
        Group(0, 2).all_reduce_sum([1.0])


def test_gradients_are_sent_in_buckets_that_keep_their_order(monkeypatch):
    monkeypatch.setattr(distributed, "BUCKET", 10)
    sizes = [3, 7, 1, 25, 2]
    buckets = distributed.buckets([torch.zeros(size) for size in sizes])
    assert [[one.numel() for one in bucket] for bucket in buckets] == [[3, 7], [1], [25], [2]]
