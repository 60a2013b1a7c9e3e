"""Parameters and states in bfloat16, or products only: a run learns, and resumes bit for bit."""

import pytest
import torch

from htbench.harness.config.settings import resolve_config
from htbench.harness.store import Store
from tests.helpers.interrupting import finish, interrupt

PURE, PRODUCTS = {"precision.params": "bfloat16"}, {"precision.autocast": "bfloat16"}
TEXT = {"task": "pydocs", "batch_size": 16, "optimizer.name": "htmuon_mix", "optimizer.lr": 0.02}
IMAGES = {"task": "digits", "batch_size": 32, "optimizer.name": "muon", "optimizer.lr": 0.02}
WORKLOADS = {
    "llama-nano": TEXT,
    "gpt2-nano": TEXT,
    "resnet-nano": IMAGES,
}


@pytest.mark.parametrize("precision", [PURE, PRODUCTS], ids=["pure", "products"])
@pytest.mark.parametrize("model", WORKLOADS)
def test_a_run_learns_and_resumes(tmp_path, tiny, model, precision):
    settings = tiny | WORKLOADS[model] | precision | {"model": model, "steps": 16, "log_every": 1}
    config = resolve_config(settings | {"checkpoint.keep_weights": True})
    record, curve = finish(config, tmp_path / "whole")
    losses = [row["loss"] for row in curve if "loss" in row]
    assert losses[-1] < 0.97 * losses[0]
    interrupt(config, tmp_path / "parts", 5)
    assert finish(config, tmp_path / "parts")[1] == curve
    weights = torch.load(Store(tmp_path / "whole").run_folder(record.key) / "weights.pt", weights_only=True)
    kept = {value.dtype for name, value in weights.items() if value.is_floating_point()}
    assert kept == {torch.bfloat16 if precision is PURE else torch.float32}
