"""A GPU's memory: a step needs what was estimated; where that is not there, the micro-batch is halved."""

import pytest
import torch

from benchmarks.gpu_parts import learner_of
from htbench.harness.cost.estimate import count

pytestmark = pytest.mark.gpu

GIB = 2**30
SAMPLES = 64


@pytest.fixture
def learner():
    """A learner of llama-60m in bfloat16; nothing that others left is in memory."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()

    sophia = {"optimizer.name": "sophia"}
    yield lambda **settings: learner_of("llama-60m", SAMPLES, 256, "cuda", **sophia, **settings)
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("at_start", [True, False], ids=["curvature", "usual"])
def test_a_step_needs_what_was_estimated(learner, at_start):
    made = learner(**{"optimizer.curvature_at_start": at_start})
    for step in range(2):
        made.update(step)
    told = count(made.config, "cuda")
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
