"""Activations computed again give the same bits, dropout included; dropout resumes and differs by process."""

import pytest
import torch

from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.train import run
from htbench.harness.train.learner import stream
from htbench.models.llama import Llama
from tests.helpers.interrupting import assert_resumes, finish

DROPPING = {
    "task": "pydocs",
    "model": "gpt2-nano",
    "batch_size": 16,
    "steps": 8,
    "dropout": 0.2,
    "optimizer.name": "adamw",
    "optimizer.lr": 4e-3,
    "log_every": 1,
}
LLAMA = DROPPING | {"model": "llama-nano", "dropout": 0.0}


@pytest.mark.parametrize("settings", [DROPPING, LLAMA], ids=["gpt2-nano", "llama-nano"])
@pytest.mark.parametrize("more", [{}, pytest.param({"micro_batch": 4}, marks=pytest.mark.slow)], ids=str)
def test_activations_computed_again_change_no_bit(tmp_path, tiny, settings, more):
    plain = resolve_config(tiny | settings | more)
    again = resolve_config(tiny | settings | more | {"activation_checkpointing": True})
    assert run_key(plain) == run_key(again)
    assert finish(plain, tmp_path / "plain")[1] == finish(again, tmp_path / "again")[1]


@pytest.mark.parametrize("name", ["adamw", "sophia"])
def test_a_stopped_run_drops_the_same(tmp_path, tiny, name):
    """Sophia in its own pass, too, which changes nothing of the rest."""
    settings = tiny | DROPPING | {"optimizer.name": name, "optimizer.lr": 1e-3}
    record, curve = assert_resumes(settings, tmp_path, 3)
    without, plain_curve = finish(resolve_config(settings | {"dropout": 0.0}), tmp_path / "without")
    assert without.key != record.key and plain_curve != curve


def test_each_process_and_step_has_a_stream_of_its_own():
    seeds = {stream(seed, step, rank) for seed in range(5) for step in range(20) for rank in range(8)}
    assert len(seeds) == 5 * 20 * 8 and all(0 <= seed < 2**63 for seed in seeds)
    torch.manual_seed(max(seeds))


def test_a_model_that_cannot_compute_again_says_so(tmp_path, tiny, monkeypatch):
    proper = Llama.__init__

    def without(self, **settings):
        proper(self, **settings)
        del self.recompute

    monkeypatch.setattr(Llama, "__init__", without)
    config = resolve_config(tiny | LLAMA | {"activation_checkpointing": True})
    with pytest.raises(UsageError, match="can't compute activations again"):
        run.run(resolved(config), Store(tmp_path))
