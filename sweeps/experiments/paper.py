"""The experiments at the paper's own scale: its workloads, its grids, one seed, `protocol: paper`.

Sources: `harness/paper/protocol.csv`, whose last column says where the paper is silent and what stands in;
`harness/paper/hyperparameters.csv` for grids and weight decays.
"""

import functools
from dataclasses import dataclass
from typing import Any

from htbench.harness.paper import experiments, reported
from htbench.harness.paper.experiments import Place
from htbench.optimizers import ZOO
from htbench.sweeps.experiments.files import Block, SweepFile, block_name

_BASE = {"protocol": "paper", "data_seed": 42, "evaluation.untrained": True, "spectra.final": True}
_SEED = 5  # of the released scripts

_C4: dict[str, Any] = {"batch_size": 512, "seq_len": 256, "layout": "padded", "precision.params": "bfloat16"}
_LLAMA: dict[str, dict[str, Any]] = {
    "llama-60m": {"steps": 10000, "evaluation.every": 200},
    "llama-135m": {"steps": 20000, "evaluation.every": 400},
    "llama-350m": {"steps": 60000, "evaluation.every": 3000, "micro_batch": 128},
    "llama-1b": {
        "steps": 90000,
        "evaluation.every": 4500,
        "micro_batch": 64,
        "activation_checkpointing": True,
        "checkpoint.keep_weights": True,
    },
}
_CIFAR = {"epochs": 200, "batch_size": 512, "schedule.warmup": 0, "schedule.floor": 0, "augment": "crop-flip"}
_WORKLOADS: dict[str, dict[str, Any]] = {
    "openwebtext": {
        "steps": 10000,
        "batch_size": 480,
        "seq_len": 1024,
        "layout": "packed",
        "precision.autocast": "bfloat16",
        "micro_batch": 120,
        "evaluation.every": 500,
    },
    "cifar10": _CIFAR,
    "cifar100": _CIFAR,
    "imagenet-1k": {
        "epochs": 90,
        "batch_size": 1024,
        "schedule.warmup": 10000,
        "schedule.floor": 0,
        "augment": "randaugment",
        "mixup": 0.2,
    },
}
# The GPUs of a run: the four A6000 of the paper's step times, the two or four of its wall-clock table.
_GPUS = {"c4": 4, "openwebtext": 4, "imagenet-1k": 4, "cifar10": 1, "cifar100": 1}
_TITLES = {
    "main_result": "Perplexity on C4 of Adam, AdamW, Muon and HTMuon.",
    "openwebtext": "GPT-2 small on OpenWebText.",
    "cifar": "ResNet-18 and ResNet-50 on CIFAR-10 and CIFAR-100.",
    "imagenet": "ViT-tiny on ImageNet-1k.",
    "llama_1b": "LLaMA-1B on C4; its weights are kept for the questions of common sense.",
    "optimizer_variants": "The other optimizers on C4.",
    "interval": "HTMuon, HTMuon_NS and HTMuon+NorMuon with the heavy-tailed update every 5, 10 or 25 steps.",
    "wall_clock": "Reruns on other GPUs, for hours and for hours to Muon's perplexity.",
    "p_grid_c4": "Other values of p on C4; p = 0 is Muon and NorMuon of main_result and optimizer_variants.",
    "p_grid_cifar": "Other values of p on CIFAR. The rerun p-ablation is a cell that no other run explains.",
    "p_grid_openwebtext": "Other values of p on OpenWebText.",
    "htmuon_ht": "Updates with a prescribed heavy-tailed spectrum.",
    "muon_ns_vs_svd": "Muon with an exact SVD, for the figure that compares it with Newton-Schulz.",
}


def files() -> list[SweepFile]:
    """One file per experiment."""
    return [_file(name) for name in experiments.experiments("paper")]


def title(experiment: str) -> str:
    """What an experiment is, in a sentence."""
    return _TITLES[experiment]


def _file(experiment: str) -> SweepFile:
    blocks = [_block(place) for place, name in experiments.places("paper").items() if name == experiment]
    return SweepFile(
        experiments.sweep("paper", experiment),
        f"{title(experiment)} As published, on GPUs.",
        _BASE,
        [_SEED],
        blocks,
        resources={"timeout_min": 1440, "cpus_per_task": 8},
    )


def _block(place: Place) -> Block:
    gpus = 2 if place.setting.replica == "rtxpro6000" and place.model == "llama-60m" else _GPUS[place.dataset]
    chosen = optimizer_settings(place) | spectra_settings(place)
    chosen |= {"replica": place.setting.replica} if place.setting.replica else {}
    processes = {"processes": gpus} if gpus > 1 else {}
    return Block(
        block_name(place),
        {"task": place.dataset, "model": place.model} | workload_settings(place) | processes | chosen,
        published_rates(place),
        {"gpus_per_node": gpus},
    )


def workload_settings(place: Place) -> dict[str, Any]:
    """How long a workload trains, on which batches, in which number formats."""
    return _C4 | _LLAMA[place.model] if place.dataset == "c4" else _WORKLOADS[place.dataset]


def optimizer_settings(place: Place) -> dict[str, Any]:
    """The optimizer of a place, with all that the paper states of it but the learning rate."""
    setting = place.setting
    rule = {"optimizer.name": setting.optimizer, "optimizer.weight_decay": grid(place).weight_decay}
    rule |= {f"optimizer.{name}": value for name, value in setting.hyper.items()}
    if place.dataset.startswith("cifar") and "aux_weight_decay" in ZOO[setting.optimizer].params:
        rule["optimizer.aux_weight_decay"] = 0  # `protocol.csv`
    return rule


def spectra_settings(place: Place) -> dict[str, Any]:
    """When the figure muon_ns_vs_svd looks at updates: at the paper's steps 1, 9000 and the last ones."""
    compared = place.setting.optimizer in ("muon", "muon_svd") and place.model in ("llama-60m", "llama-135m")
    return {"spectra.updates": [0, 0.45, 0.95]} if compared else {}


# --- the grids and weight decays that the paper states ---

# Whose grid and weight decay stand in where the paper is silent: the rule that it varies.
_STAND_INS = {"muon_svd": "muon", "htmuon_ns": "htmuon", "htmuon_ht_normuon": "htmuon_ht"}
# Of `protocol.csv`. Adam's weight decay is a part of its gradient: with 0.1 in it a ViT learns nothing.
_IMAGENET_DECAY = 0.1
_IMAGENET_DECAY_OF_ADAM = 1e-5  # as on C4


@dataclass(frozen=True)
class Grid:
    """What the paper states of an optimizer on a workload; None and () are what it does not state."""

    rates: tuple[float, ...] = ()
    best: float | None = None
    weight_decay: float | None = None


def grid(place: Place) -> Grid:
    """The grid of a place. Weight decay and missing rates are those of the rule that it varies."""
    optimizer = place.setting.optimizer
    stated = _stated(place.dataset, place.model, optimizer)
    varied = _stated(place.dataset, place.model, _STAND_INS.get(optimizer, optimizer))
    usual = _IMAGENET_DECAY_OF_ADAM if optimizer == "adam" else _IMAGENET_DECAY
    decay = next((g.weight_decay for g in (stated, varied) if g.weight_decay is not None), usual)
    return Grid(stated.rates or varied.rates, stated.best or varied.best, decay)


def published_rates(place: Place) -> tuple[float, ...]:
    """The rates that the paper's own scale runs a place with.

    The first setting of an optimizer gets its grid. Variations of p and interval, and reruns, get the rate
    that was best there: the paper varies one thing at a time and states no other grid.
    """
    stated, setting = grid(place), place.setting
    default_p = 0.03125 if place.dataset == "imagenet-1k" else 0.125
    first = setting.p in (None, default_p) and setting.interval in (None, 1) and not setting.replica
    has_grid = (first or place.model == "llama-1b") and setting.optimizer != "htmuon_ns"
    return stated.rates if has_grid or stated.best is None else (stated.best,)


@functools.cache
def _stated(dataset: str, model: str, optimizer: str) -> Grid:
    for row in reported.rows("hyperparameters"):
        if (row["dataset"], row["model"], row["optimizer"]) == (dataset, model, optimizer):
            best, decay = row["lr_best"], row["weight_decay"]
            rates = tuple(map(float, row["lr_grid"].split()))
            return Grid(rates, float(best) if best else None, float(decay) if decay else None)
    return Grid()
