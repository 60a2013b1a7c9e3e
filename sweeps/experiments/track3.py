"""Track 3 of modded-nanogpt with one budget for every row, at its own scale and in miniature.

The benchmark compares optimizers that were tuned by different people with different budgets. Here each gets
five rates by three weight decays and fresh seeds; data, batch, model, length, schedule, and the AdamW of
embedding, head and vectors are those of its tuned baseline (result 36) in every row.

Source: https://github.com/KellerJordan/modded-nanogpt, `records/track_3_optimization`.
"""

from typing import Any

from htbench.optimizers import ZOO
from htbench.sweeps.experiments.files import Block, SweepFile

# The rules of its results that are rows of ours, each with the rate of such a result, which is the middle of
# the five; None: the row's default, as no result has the rule with plain weight decay.
LEADERS = {
    "adamw": 0.0015,  # result 2
    "muon": 0.025,  # 36
    "normuon": 0.035,  # 10
    "contra_muon": 0.0375,  # 11
    "soft_muon": None,
    "dynmuon": 0.02,  # 28
    "aurora": 0.0375,  # 17
    "soap": None,
    "soap_muon": 0.0375,  # 14, of which the row leaves Contra-Muon and a floor under the steps out
    "muown": 0.00325,  # 23
}
_OCTAVES = (-2, -1, 0, 1, 2)
_DECAYS = (0.0125, 0.05, 0.2)
_IN_MINIATURE = {"muon": (0.01, 0.02, 0.04, 0.08, 0.16), "adamw": (0.002, 0.005, 0.01, 0.02, 0.05)}
_ADAMW = {"optimizer": "adamw", "betas": [0.8, 0.95], "eps": 1e-10, "weight_decay": 0.001}
_AUX_RATES = {"embedding": 0.7, "head": 0.004, "vectors": 0.015}
_SHARED: dict[str, Any] = {
    "schedule.name": "wsd",
    "schedule.warmup": 0,
    "schedule.decay": 0.7,
    "schedule.floor": 0,
    **{
        f"optimizer.groups.{group}.{name}": value
        for group, rate in _AUX_RATES.items()
        for name, value in {**_ADAMW, "lr": rate}.items()
    },
}
_FULL: dict[str, Any] = {
    "task": "fineweb",
    "model": "modded-gpt-small",
    "steps": 3250,  # of the tuned baseline, result 36
    "batch_size": 512,
    "micro_batch": 32,  # 56 GiB
    "precision.autocast": "bfloat16",
    "evaluation.every": 125,
}
_NANO: dict[str, Any] = {
    "task": "pydocs",
    "model": "modded-gpt-nano",
    "steps": 150,
    "batch_size": 16,
    "evaluation.every": 10,
    "device": "cpu",
}


def files() -> list[SweepFile]:
    """The sweep at full scale, and one of two optimizers on embedded data."""
    full = SweepFile(
        "track3-leaders",
        "Track 3 of modded-nanogpt: five rates by three weight decays for each row, five fresh seeds.",
        _FULL | _SHARED,
        [0],
        [_block(name, rate or float(ZOO[name].lr.default)) for name, rate in LEADERS.items()],  # type: ignore[arg-type]
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


def _block(name: str, middle: float) -> Block:
    rates = [float(f"{middle * 2.0**i:.3g}") for i in _OCTAVES]
    return Block(name, {"optimizer.name": name}, rates, others={"optimizer.weight_decay": _DECAYS})


def _small(name: str, rates: tuple[float, ...]) -> Block:
    precise = {"optimizer.ns_dtype": "float32"} if "ns_dtype" in ZOO[name].params else {}
    return Block(name, {"optimizer.name": name} | precise, rates)
