"""Every optimizer on the paper's workloads with the same budget: seven rates in octaves, three fresh seeds.

The paper gives Adam one rate and Sophia six. Here all have as many, around the rate that the paper or the
optimizer's row recommends, chosen on validation and reported on test.
"""

from __future__ import annotations

from harness.paper.experiments import Place
from harness.paper.reported import Setting
from optimizers import ZOO
from sweeps.experiments import paper
from sweeps.experiments.files import Block, SweepFile

_OCTAVES = (-3, -2, -1, 0, 1, 2, 3)
_WORKLOADS = (
    ("c4", "llama-60m"),
    ("c4", "llama-135m"),
    ("openwebtext", "gpt2-small"),
    ("cifar10", "resnet18"),
    ("cifar100", "resnet18"),
)


def files() -> list[SweepFile]:
    """One file per workload."""
    return [_file(*workload) for workload in _WORKLOADS]


def _file(dataset: str, model: str) -> SweepFile:
    gpus = 4 if dataset in ("c4", "openwebtext") else 1
    places = [Place(dataset, model, Setting(name)) for name in ZOO]
    workload = {"task": dataset, "model": model} | paper.workload_settings(places[0])
    return SweepFile(
        f"equal-{dataset}-{model}",
        f"Every optimizer on {dataset} with {model}, each with seven rates and three fresh seeds.",
        workload | ({"processes": gpus} if gpus > 1 else {}),
        [0],
        [_block(place) for place in places],
        fresh_seeds=3,
        resources={"timeout_min": 1440, "gpus_per_node": gpus, "cpus_per_task": 8},
    )


def _block(place: Place) -> Block:
    name = place.setting.optimizer
    middle = paper.grid(place).best or float(ZOO[name].lr.default)  # type: ignore[arg-type]
    return Block(name, {"optimizer.name": name}, [float(f"{middle * 2.0**i:.3g}") for i in _OCTAVES])
