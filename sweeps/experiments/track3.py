"""Track 3 of modded-nanogpt with one budget for every row, at its own scale and in miniature.

The benchmark compares optimizers that were tuned by different people with different budgets. Here each gets
five rates by three weight decays and fresh seeds; data, batch, model and length are those of its baseline. The
rule has the matrices of the blocks, as there; embedding, head and vectors are left to one AdamW with the same
rate in every row, where the baseline has three rates.

Source: https://github.com/KellerJordan/modded-nanogpt, `records/track_3_optimization`.
"""

from __future__ import annotations

from typing import Any

from harness.paper.experiments import Place
from harness.paper.reported import Setting
from optimizers import ZOO
from sweeps.experiments import equal
from sweeps.experiments.files import Block, SweepFile

# Of the results of its table those whose rule is a row of ours.
LEADERS = ("adamw", "muon", "normuon", "contra_muon", "soft_muon", "dynmuon", "soap", "aurora")
_IN_MINIATURE = {"muon": (0.01, 0.02, 0.04, 0.08, 0.16), "adamw": (0.002, 0.005, 0.01, 0.02, 0.05)}
_SHARED: dict[str, Any] = {
    "schedule.name": "wsd",
    "schedule.warmup": 0,
    "schedule.decay": 0.7,
    "schedule.floor": 0,
    "optimizer.routing": "hidden",
}
_FULL: dict[str, Any] = {
    "task": "fineweb",
    "model": "modded-gpt-small",
    "steps": 3250,  # of the tuned baseline, result 36
    "batch_size": 512,
    "micro_batch": 64,
    "precision.autocast": "bfloat16",
    "evaluation.every": 125,
    "optimizer.aux_lr": 0.004,  # of its head
}
_NANO: dict[str, Any] = {
    "task": "pydocs",
    "model": "modded-gpt-nano",
    "steps": 150,
    "batch_size": 16,
    "evaluation.every": 10,
    "optimizer.aux_lr": 0.004,
    "device": "cpu",
}


def files() -> list[SweepFile]:
    """The sweep at full scale, and one of two optimizers on embedded data."""
    full = SweepFile(
        "track3-leaders",
        "Track 3 of modded-nanogpt: five rates by three weight decays for each row, five fresh seeds.",
        _FULL | _SHARED,
        [0],
        [equal.block(Place("fineweb", "modded-gpt-small", Setting(name))) for name in LEADERS],
        fresh_seeds=5,
        resources={"timeout_min": 720, "gpus_per_node": 1, "cpus_per_task": 8},
    )
    small = SweepFile(
        "track3-nano",
        "The same in miniature, on embedded data: two optimizers, five rates each, three fresh seeds.",
        _NANO | _SHARED,
        [0],
        [_small(name, rates) for name, rates in _IN_MINIATURE.items()],
        fresh_seeds=3,
    )
    return [full, small]


def _small(name: str, rates: tuple[float, ...]) -> Block:
    precise = {"optimizer.ns_dtype": "float32"} if "ns_dtype" in ZOO[name].params else {}
    return Block(name, {"optimizer.name": name} | precise, rates)
