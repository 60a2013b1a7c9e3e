"""A synthetic store with the paper's experiments at nano scale: every place of a figure, unlucky ones too."""

import math
import random

import pytest

from htbench.harness.paper import experiments, reported
from htbench.harness.store import Store
from htbench.harness.store.points import REPLICATE
from tests.helpers.small_languages import small_languages
from tests.results.conftest import Bench, image, text

_RATES = (0.02, 0.04, 0.08)
_SEEDS = (1, 2)
_STEPS = 40
_DRAWN = ("llama-60m", "llama-135m", "resnet18", "resnet50")  # models of the paper's figures


@pytest.fixture(scope="session")
def nano_store(tmp_path_factory):
    """Written once, read only."""
    bench = Bench(tmp_path_factory.mktemp("nano") / "store")
    with small_languages():
        for place, experiment in experiments.places("nano").items():
            if place.model in _DRAWN and experiment not in ("p_grid_cifar", "wall_clock"):
                _add(bench, place, f"nano-{experiment}")
    return Store(bench.write().root)


@pytest.fixture(scope="session")
def paper_store(tmp_path_factory):
    """The runs of the learning rates on C4 at full scale, each a little better than published."""
    bench = Bench(tmp_path_factory.mktemp("paper") / "store")
    for line in reported.of_table("lr_grid_c4"):
        base = {"task": "c4", "model": line.model, "steps": _STEPS, "protocol": "paper"}
        loss = math.log(line.value - 0.1)
        metrics = text(loss) | {"val_loss_biased": loss, "test_loss_biased": loss}
        common = {"sweep": "paper-main_result", "base": base, "curve": False, "metrics": metrics}
        bench.add("pydocs", line.optimizer, line.lr, **common, **line.hyper)
    return Store(bench.write().root)


def _add(bench, place, sweep):
    """SOAP diverges everywhere; COSMOS has no replica yet; NorMuon diverges at the largest rate."""
    task, model = place.workload
    base = {"task": task, "model": model, "steps": _STEPS}
    common = {"sweep": sweep, "block": f"{place.model}-{place.optimizer}", "base": base, **place.hyper}
    for lr in _RATES:
        diverges = place.optimizer == "soap" or (place.optimizer, lr) == ("normuon", _RATES[-1])
        outcome = {"state": "diverged", "reason": "x at step 3", "steps": 3} if diverges else {}
        metrics = _metrics(place, lr, 0)
        bench.add("digits", place.optimizer, lr, metrics=metrics, curve=False, **common, **outcome)
    if place.optimizer in ("soap", "cosmos"):
        return
    best = min(_RATES, key=lambda lr: (_metrics(place, lr, 0)["val_loss"], lr))
    for seed in _SEEDS:
        add = {"stage": REPLICATE, "seed": seed, "metrics": _metrics(place, best, seed)}
        key = bench.add("digits", place.optimizer, best, **add, **common)
        noise = random.Random(f"{_name(place)} {seed}")
        alphas = [noise.uniform(1.8, 3.2) for _ in range(3)]
        bench.spectra(key, alphas, steps=_STEPS, updates=[(1, 0.9), (18, 1.1), (38, noise.random())], n=16)


def _metrics(place, lr, seed):
    noise = random.Random(f"{_name(place)} {lr} {seed}").gauss(0, 0.01)
    loss = 1 + 0.1 * math.log(lr / 0.04) ** 2 + noise
    return text(loss) if place.dataset in ("c4", "openwebtext") else image(0.9 - loss / 10, loss)


def _name(place):
    return f"{place.dataset} {place.model} {place.optimizer} {place.hyper}"
