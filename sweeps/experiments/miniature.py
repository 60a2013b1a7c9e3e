"""The image experiments on embedded data: `nano`, and `quick` with a quarter of the steps and half the rates.

Honest protocol: the rate is chosen on validation among as many rates for every row, and the chosen one runs
on three fresh seeds. Grids are in octaves (digits: in factors of three), wide enough that no optimum lies at
an edge. Weight decay, p, interval and rank exponent are those of the paper.
"""

from collections.abc import Sequence
from typing import Any

from htbench.harness.paper import experiments, scales
from htbench.harness.paper.experiments import Place
from htbench.optimizers import ZOO
from htbench.sweeps.experiments import paper
from htbench.sweeps.experiments.files import Block, SweepFile, block_name

_RATES = 6
# Lowest rate of each grid by the nano task or model and the optimizer.
_LOWEST = {
    ("vit-nano", "adam"): 0.0005,
    ("vit-nano", "muon"): 0.005,
    ("vit-nano", "htmuon"): 0.01,
    ("glyphs", "sgdm"): 0.05,
    ("digits", "sgdm"): 0.02,
    **{("glyphs", name): 0.04 for name in ("muon", "normuon", "htmuon", "htmuon_normuon")},
    **{("digits", name): 0.01 for name in ("muon", "normuon")},
    **{("digits", name): 0.02 for name in ("htmuon", "htmuon_normuon")},
}
_STEPS = {"vit-nano": 250, "glyphs": 150, "digits": 60}  # by the nano model, else by the task
_BATCH = 64


def files(scale: str) -> list[SweepFile]:
    """One file per experiment.

    Args:
        scale: "nano" or "quick".
    """
    return [_file(scale, name) for name in experiments.experiments(scale)]


def _file(scale: str, experiment: str) -> SweepFile:
    how = "in miniature" if scale == "nano" else "in miniature and in a hurry"
    return SweepFile(
        experiments.sweep(scale, experiment),
        f"{paper.title(experiment)} The same {how}, on embedded data.",
        {"device": "cpu", "evaluation.untrained": True, "spectra.final": True},  # too small for a GPU
        [0],
        [_block(scale, place) for place, name in experiments.places(scale).items() if name == experiment],
        fresh_seeds=3,
    )


def _block(scale: str, place: Place) -> Block:
    task, model = scales.workload(scale, place.dataset, place.model)
    steps = _STEPS.get(model) or _STEPS[task]
    rates = grid(task, model, place)
    if scale == "quick":
        steps, rates = steps // 4, rates[1::2]
    workload: dict[str, Any] = {"task": task, "model": model, "steps": steps, "batch_size": _BATCH}
    workload["evaluation.every"] = 25
    rule = paper.optimizer_settings(place)
    if "ns_dtype" in ZOO[place.setting.optimizer].params:
        rule["optimizer.ns_dtype"] = "float32"  # most CPUs only emulate bfloat16, which is the default
    return Block(block_name(place), workload | rule, rates)


def grid(task: str, model: str, place: Place) -> Sequence[float]:
    """The learning rates of a place, ascending."""
    setting, name = place.setting, place.setting.optimizer
    lowest = _LOWEST.get((model, name)) or _LOWEST[task, name]
    if (setting.p or 0) > 0.125 and task != "digits":
        lowest *= 2  # the larger p, the smaller the update; the grids of digits are wide enough
    factor = 3 if task == "digits" else 2
    return [float(f"{lowest * factor**i:.3g}") for i in range(_RATES)]
