"""On a GPU a training step waits for nothing but the status of a solver; docs/bench.md has a table."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.gpu_parts import STACKS, make_matrices
from htbench import optimizers
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.data import text
from htbench.harness.data.augment import Recipe
from htbench.harness.data.images import ImageTask
from htbench.harness.data.task import SPLITS
from htbench.harness.parallel.group import ALONE
from htbench.harness.train.learner import Learner
from htbench.optimizers import ZOO
from tests.helpers.padded import Padded

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Sophia made")]


# Waits of each stack: `eigh` has one status, `svd` asks first whether it has converged.
STATUS = {
    **dict.fromkeys(("htmuon", "htmuon_normuon", "htmuon_adamuon"), 1),
    **dict.fromkeys(("muon_svd", "htmuon_ht", "htmuon_ht_normuon"), 2),
}
ONCE = ("prodigy",)  # waits for a number that it estimates, once in a step


@contextmanager
def waits():
    """What waits inside, each as a warning."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", ".*synchronizing")  # torch's word for it
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ZOO)
def test_a_step_of_an_optimizer_waits_for_the_status_of_a_solver_at_most(name):
    generator = torch.Generator().manual_seed(0)
    params = [nn.Parameter(one) for one in make_matrices("cuda", torch.float32, generator)]
    optimizer = optimizers.build(name, [(f"w{i}", p) for i, p in enumerate(params)], routing="matrix")
    for _ in range(3):
        for p in params:
            p.grad = torch.randn_like(p)
        with waits() as found:
            optimizer.step()
    assert len(found) == len(STACKS) * STATUS.get(name, 0) + (name in ONCE)


def padded_text():
    tokens = np.random.default_rng(0).integers(0, 5000, 2001).astype(np.uint16)
    sizes = {"batch_size": 16, "seq_len": 16, "data_seed": 0, "held_out_tokens": 512}
    assert text.CHUNK_ABOVE < 5000
    return Padded(dict.fromkeys(SPLITS, tokens), np.ones(5000), **sizes)


def mixed_images():
    """Random images of CIFAR's size with all augmentations."""
    images = {split: torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8) for split in SPLITS}
    labels = {split: torch.randint(0, 100, (64,)) for split in SPLITS}
    recipe = Recipe(32, (0.5,) * 3, (0.2,) * 3, "randaugment", 0.2)
    return ImageTask(images, labels, classes=100, batch_size=16, data_seed=0, recipe=recipe)


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
