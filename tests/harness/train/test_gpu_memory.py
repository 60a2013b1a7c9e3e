"""A GPU's memory: a step needs what was estimated; where that is not there, the micro-batch is halved."""

import numpy as np
import pytest
import torch

from harness.config.key import resolved
from harness.config.settings import resolve_config
from harness.cost import kept, shapes
from harness.data.task import SPLITS
from harness.data.text import TextTask
from harness.parallel.group import ALONE
from harness.train.learner import Learner

pytestmark = pytest.mark.gpu

GIB = 2**30
SAMPLES, LENGTH = 64, 256


@pytest.fixture
def learner():
    """A learner of llama-60m in bfloat16; nothing that others left is in memory."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()

    def make(**settings):
        named = {"task": "c4", "model": "llama-60m", "layout": "packed", "data_fingerprint": "-"}
        named |= {"seq_len": LENGTH, "batch_size": SAMPLES, "steps": 9, "precision.params": "bfloat16"}
        named |= {"device": "cuda", "optimizer.name": "sophia"}
        config = resolve_config(named | settings)
        tokens = np.arange(SAMPLES * LENGTH * 2 + 1, dtype=np.uint16)
        sizes = {"batch_size": SAMPLES, "seq_len": LENGTH, "data_seed": 0, "held_out_tokens": LENGTH}
        task = TextTask(dict.fromkeys(SPLITS, tokens), np.ones(32000), **sizes)
        return Learner(resolved(config), task, 9, torch.device("cuda"), ALONE)

    yield make
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("at_start", [True, False], ids=["curvature", "usual"])
def test_a_step_needs_what_was_estimated(learner, at_start):
    made = learner(**{"optimizer.curvature_at_start": at_start})
    for step in range(2):
        made.update(step)
    told = kept.simulate(made.config, shapes.of(made.config), "cuda").memory
    if at_start:  # the estimate is of steps with Sophia's second pass
        assert torch.cuda.max_memory_allocated() == pytest.approx(told.peak, rel=0.1)
    else:
        assert torch.cuda.max_memory_allocated() < 0.5 * told.peak


def test_where_memory_lacks_the_micro_batch_is_halved_until_it_fits(learner):
    """Of the second pass, too. The peak is that of what fits, and the failed attempts are gone."""
    whole = torch.cuda.get_device_properties(0).total_memory
    cap = 2 * GIB
    torch.cuda.set_per_process_memory_fraction(cap / whole)
    made = learner(**{"optimizer.curvature_at_start": True})
    for step in range(3):
        made.update(step)
    assert made.halved and 1 < made.micro_batch < SAMPLES / 2
    assert torch.cuda.max_memory_allocated() < cap
