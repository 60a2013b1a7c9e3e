"""On a GPU a training step waits for nothing but the status of a solver; docs/bench.md has a table."""

import numpy as np
import pytest
import torch

from harness.bench.gpu_parts import mixed_images, waits, waits_of_a_step
from harness.config.key import resolved
from harness.config.settings import resolve_config
from harness.data import text
from harness.data.task import SPLITS
from harness.parallel.group import ALONE
from harness.train.learner import Learner
from optimizers import ZOO
from tests.helpers.padded import Padded

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Sophia made")]


@pytest.mark.parametrize("name", ZOO)
def test_a_step_of_an_optimizer_waits_for_the_status_of_a_solver_at_most(name):
    found = waits_of_a_step(name)
    assert found.waits == found.expected


def padded_text():
    tokens = np.random.default_rng(0).integers(0, 5000, 2001).astype(np.uint16)
    sizes = {"batch_size": 16, "seq_len": 16, "data_seed": 0, "held_out_tokens": 512}
    assert text.CHUNK_ABOVE < 5000
    return Padded(dict.fromkeys(SPLITS, tokens), np.ones(5000), **sizes)


@pytest.mark.parametrize("autocast", ["none", "bfloat16"])
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (padded_text, {"task": "pydocs", "model": "llama-nano", "optimizer.name": "sophia"}),
        (mixed_images, {"task": "cifar100", "model": "resnet-nano", "optimizer.name": "muon"}),
    ],
)
def test_a_training_step_waits_for_nothing(make, names, autocast):
    settings = {"batch_size": 16, "micro_batch": 4, "steps": 9, "device": "cuda", "grad_clip": 1.0}
    config = resolve_config(settings | names | {"precision.autocast": autocast})
    learner = Learner(resolved(config), make(), 9, torch.device("cuda"), ALONE)
    for step in range(3):
        with waits() as found:
            learner.update(step)
    assert not found
