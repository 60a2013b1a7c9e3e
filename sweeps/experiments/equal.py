"""Every optimizer on the paper's workloads with one budget: five rates by three weight decays, three seeds.

The paper gives Adam one rate and Sophia six. Here all have as many, around the rate and the decay that the
paper or the optimizer's row recommends, chosen on validation and reported on test. Weight decay is tuned,
too: without it Muon gains more in a short run than the gap in question.
"""

from htbench.harness.paper.experiments import Place
from htbench.harness.paper.reported import Setting
from htbench.optimizers import ZOO
from htbench.sweeps.experiments import paper
from htbench.sweeps.experiments.files import Block, SweepFile

_OCTAVES = (-2, -1, 0, 1, 2)
_DECAYS = (0.0, 1.0, 3.0)  # times the recommended one
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
        f"Every optimizer on {dataset} with {model}: five rates by three weight decays, three fresh seeds.",
        workload | ({"processes": gpus} if gpus > 1 else {}),
        [0],
        [_block(place) for place in places],
        fresh_seeds=3,
        resources={"timeout_min": 1440, "gpus_per_node": gpus, "cpus_per_task": 8},
    )


def _block(place: Place) -> Block:
    name = place.setting.optimizer
    middle = paper.grid(place).best or float(ZOO[name].lr.default)  # type: ignore[arg-type]
    decay = float(ZOO[name].weight_decay.default or 0.01)  # type: ignore[arg-type]
    return Block(
        name,
        {
            "optimizer.name": name,
            **({"schedule.name": made_for[0]} if (made_for := ZOO[name].schedules) else {}),
        },
        [float(f"{middle * 2.0**i:.3g}") for i in _OCTAVES],
        others={"optimizer.weight_decay": [float(f"{decay * factor:.3g}") for factor in _DECAYS]},
    )
