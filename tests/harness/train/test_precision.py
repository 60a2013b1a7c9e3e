"""Parameters and states in bfloat16, or products only: a run learns, and resumes bit for bit."""

import pytest
import torch

from htbench.harness.store import Store
from htbench.harness.train.checkpoint import load_weights
from tests.helpers.interrupting import assert_resumes

PURE, PRODUCTS = {"precision.params": "bfloat16"}, {"precision.autocast": "bfloat16"}
TEXT = {"task": "pydocs", "batch_size": 16, "optimizer.name": "htmuon_mix", "optimizer.lr": 0.02}
IMAGES = {"task": "digits", "batch_size": 32, "optimizer.name": "muon", "optimizer.lr": 0.02}
CASES = [  # autocast knows nothing of tied matrices
    ("llama-nano", TEXT, PURE),
    ("llama-nano", TEXT, PRODUCTS),
    ("gpt2-nano", TEXT, PURE),
    ("resnet-nano", IMAGES, PURE),
    ("resnet-nano", IMAGES, PRODUCTS),
]


@pytest.mark.parametrize(("model", "workload", "precision"), CASES)
def test_a_run_learns_and_resumes(tmp_path, tiny, model, workload, precision):
    settings = tiny | workload | precision | {"model": model, "steps": 16}
    record, curve = assert_resumes(settings, tmp_path, 5)
    losses = [row["loss"] for row in curve if "loss" in row]
    assert losses[-1] < 0.97 * losses[0]
    weights, _ = load_weights(Store(tmp_path / "whole").files(record.key))
    kept = {value.dtype for name, value in weights.items() if value.is_floating_point()}
    assert kept == {torch.bfloat16 if precision is PURE else torch.float32}
