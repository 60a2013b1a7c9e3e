"""One update as it is counted: equal to what a simulation gave, and on real tensors to that without memory.

`tests/golden/cost.json` has operations, state and peak of each case as the simulation of version 0.1.0 told.
Peaks of SOAP, its kin and COSMOS are those of their second revision, which begins with a basis in float64.
"""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from htbench.harness.cost import shapes, update
from htbench.optimizers.zoo.registry import ZOO
from tests.helpers.counted import config_of

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "cost.json").read_text())
SHARED = ", 2 processes"
# One row of each class in the quick suite, and one large model.
CLASSES = {ZOO[name].target: name for name in reversed(ZOO)}.values()
QUICK = {f"{name}{more}" for name in CLASSES for more in ("", SHARED, ", interval 7")} | {"llama-60m, muon"}
# A convolution of a CPU in bfloat16 keeps .1 % more than one without memory; sums may be in another order.
WITHIN = defaultdict(lambda: 1e-12, peak=2e-3)


def slow_unless(quick, name):
    return pytest.param(name, marks=() if name in quick else pytest.mark.slow)


def counted(config, device):
    return vars(update.count(config, shapes.of(config), device))


@pytest.mark.parametrize("name", [slow_unless(QUICK, name) for name in GOLDEN])
def test_it_is_what_the_simulation_gave(name):
    case = GOLDEN[name]
    config = config_of(case["task"], case["model"], case["optimizer"], **case["settings"])
    for device in ("cpu", "cuda"):
        ours = counted(config, device)
        for figure, value in case[device].items():
            # Who owns a parameter was another guess of seconds.
            within = 0.06 if SHARED in name and figure in ("states", "peak") else WITHIN[figure]
            assert ours[figure] == pytest.approx(value, rel=within), (device, figure)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", [slow_unless(CLASSES, name) for name in ZOO])
def test_real_tensors_count_like_those_without_memory(name, device, monkeypatch):
    config = config_of("pydocs", "llama-nano", name)
    real = counted(config, device)
    monkeypatch.setattr(update, "_SMALL", 0)
    for figure, value in counted(config, device).items():
        assert real[figure] == pytest.approx(value, rel=WITHIN[figure]), figure
