"""Whole runs: the same losses however a batch is divided, and on whatever number of processes they go on."""

import signal

import pytest
import torch

from htbench import models
from htbench.harness.config.settings import resolve_config
from htbench.harness.store import Store, items
from htbench.harness.train import checkpoint
from htbench.sweeps.run.execute import EXIT_ENDED, EXIT_STOPPED
from tests.helpers.in_ranks import LM, assert_close, codes, end, folder, start, together
from tests.helpers.interrupting import finish, interrupt

TEXT_MODELS = [
    name
    for name, row in models.SIZES.items()
    if name.endswith("-nano") and row.fits("lm") and not row.batch_norm
]
PADDED = {
    "task": "tests.helpers.padded:TASK",
    "steps": 5,
    "batch_size": 64,
    "grad_clip": 0.5,
    "optimizer.name": "adamw",
}
TEXT = LM | {"held_out_tokens": 1024}
HTMUON = {"optimizer.name": "htmuon", "optimizer.lr": 0.02}
SOAP = {"optimizer.name": "soap", "optimizer.lr": 3e-3, "optimizer.precondition_frequency": 2}
FREE = {"optimizer.name": "schedule_free", "optimizer.lr": 3e-3}  # whose owners have z
SOPHIA = {"optimizer.name": "sophia", "optimizer.lr": 2e-3, "optimizer.curvature_interval": 2}


def made(folder):
    folder.mkdir()
    return folder


def weights(settings, root):
    return torch.load(folder(settings, root) / "weights.pt", weights_only=True)


def saved(settings, root):
    return checkpoint.load(folder(settings, root) / "checkpoint.pt")["optimizer"]["state"]


# --- how a batch is divided ---


@pytest.mark.parametrize("model", TEXT_MODELS)
def test_padded_text_in_any_micro_batches_and_processes(tmp_path, model):
    settings = PADDED | {"model": model}
    whole = finish(resolve_config(settings), tmp_path / "1x64")
    parts = finish(resolve_config(settings | {"micro_batch": 8}), tmp_path / "8x8")
    assert_close(parts, whole)
    scored = items.read(Store(tmp_path / "1x64").files(whole[0].key), whole[0])
    for size in (2, 4) if model == "llama-nano" else ():
        root = made(tmp_path / f"{size} processes")
        many = together(size, settings | {"micro_batch": 8}, root)
        assert_close(many, whole)
        theirs = items.read(Store(root).files(many[0].key), many[0])
        assert theirs.digest == scored.digest and theirs.sums == pytest.approx(scored.sums, rel=1e-4)
        assert (theirs.counts == scored.counts).all() and (theirs.clusters == scored.clusters).all()


@pytest.mark.slow
def test_padded_text_with_sophia_s_passes(tmp_path):
    settings = PADDED | SOPHIA | {"model": "llama-nano"}
    whole = finish(resolve_config(settings), made(tmp_path / "one"))
    assert_close(together(2, settings | {"micro_batch": 16}, made(tmp_path / "two")), whole)


@pytest.mark.parametrize(
    ("size", "optimizer"),
    [(2, FREE), pytest.param(4, SOPHIA, marks=pytest.mark.slow)],
    ids=["2-schedule_free", "4-sophia"],
)
def test_synchronised_batch_norm_is_one_process_on_the_whole_batch(tmp_path, tiny, size, optimizer):
    settings = tiny | optimizer | {"checkpoint.keep_weights": True, "log_every": 1}
    shared = settings | {"processes": size, "sync_batch_norm": True}
    roots = made(tmp_path / "one"), made(tmp_path / "many")
    one, many = finish(resolve_config(settings), roots[0]), together(size, shared, roots[1])
    assert_close(many, one, rel=1e-3)
    statistics = 0
    for name, value in weights(settings, roots[0]).items():
        torch.testing.assert_close(weights(shared, roots[1])[name], value, rtol=1e-3, atol=1e-4)
        statistics += "running_var" in name
    assert statistics > 2


def test_soap_in_micro_batches_and_two_processes(tmp_path):
    settings = PADDED | SOAP | {"model": "llama-nano"}
    whole = finish(resolve_config(settings), made(tmp_path / "one"))
    parts = finish(resolve_config(settings | {"micro_batch": 16}), made(tmp_path / "parts"))
    assert_close(parts, whole, rel=2e-5)
    assert_close(together(2, settings, made(tmp_path / "two")), whole, rel=2e-5)


# --- what several processes do besides ---


@pytest.mark.slow
def test_sums_behind_the_backward_pass_give_the_same_losses(tmp_path):
    settings = TEXT | SOPHIA | {"grad_clip": 0.5, "micro_batch": 4}
    overlapped = together(2, settings, made(tmp_path / "overlapped"), "overlap")
    assert_close(overlapped, together(2, settings, made(tmp_path / "plain")))


@pytest.mark.parametrize("changes", [HTMUON, SOAP, FREE], ids=["htmuon", "soap", "schedule_free"])
@pytest.mark.slow
def test_two_processes_then_one_then_four(tmp_path, changes):
    settings = TEXT | changes | {"log_every": 1}
    roots = made(tmp_path / "calm"), made(tmp_path / "moved")
    interrupt(resolve_config(settings), roots[0], 3)
    assert end(start(2, settings, roots[1], "stop the last", 3)) == EXIT_STOPPED
    whole, gathered = saved(settings, roots[0]), saved(settings, roots[1])
    assert {number: state.keys() for number, state in gathered.items()} == {
        number: state.keys() for number, state in whole.items()
    }, "the file has the state of all, as that of one process"
    interrupt(resolve_config(settings), roots[1], 6)
    moved = together(4, settings, roots[1])
    assert moved[0].attempts == 3
    assert_close(moved, finish(resolve_config(settings), roots[0]))


@pytest.mark.slow
def test_a_process_killed_while_its_state_is_gathered_costs_no_bit(tmp_path):
    settings = TEXT | SOAP | {"checkpoint.every_steps": 3, "log_every": 1}
    settings |= {"grad_clip": 0.5, "micro_batch": 4, "checkpoint.keep_weights": True}
    roots = made(tmp_path / "calm"), made(tmp_path / "killed")
    ranks = start(2, settings, roots[1], "killed in the second gather")
    assert end(ranks) == -signal.SIGKILL
    assert codes(ranks)[0] == EXIT_ENDED, "by itself: it need not be killed"
    assert "one of its processes was killed" in (roots[1] / "said-0").read_text()
    again = together(2, settings, roots[1])
    assert "going on from step 3" in (folder(settings, roots[1]) / "log.txt").read_text()
    plain = together(2, settings | {"shard_optimizer": False}, roots[0])
    assert (again[0].metrics, again[1]) == (plain[0].metrics, plain[1])
    torch.testing.assert_close(*(weights(settings, root) for root in roots), rtol=0, atol=0)
