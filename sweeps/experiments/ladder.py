"""The ladder: three rules at several sizes and lengths of a run that two cores train in some hours.

Models are trained to 20 tokens per parameter, where the paper has 9 to 40. All runs have one schedule: a
warm-up, the same for all lengths at a size, a constant rate, and a fall to zero over the last fifth.
docs/ladder.md says what was decided before the first replica ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.experiments.files import Block, SweepFile

_SEQUENCE = 64  # tokens
# Of each size: parameters, sequences in a batch, steps of warm-up, fresh seeds.
_SIZES = {
    "s1": (45_344, 8, 100, 16),
    "s2": (114_000, 16, 150, 8),
    "s3": (238_400, 16, 200, 4),
}
_RULES: dict[str, dict[str, Any]] = {
    "adamw": {"optimizer.name": "adamw"},
    "muon": {"optimizer.name": "muon", "optimizer.ns_dtype": "float32"},
    "htmuon": {"optimizer.name": "htmuon", "optimizer.p": 0.125, "optimizer.ns_dtype": "float32"},
}
_AUX = 0.0005  # rate of the AdamW beside the matrix rules at all sizes: `ladder-aux` found it
_FIRST = {"adamw": 0.001, "muon": 0.0025, "htmuon": 0.005}  # the lowest of five octaves at S1
_DECAYS = (0.0, 0.03, 0.1)
ORDER = ("ladder-aux", "ladder-s1")  # later sweeps have settings that earlier ones found


def files() -> list[SweepFile]:
    """The sweep files in their order."""
    aux = SweepFile(
        "ladder-aux",
        "The rate of the AdamW that trains embedding, head and vectors beside a matrix rule.",
        _workload("s1", 20),
        [0, 1],
        [
            Block(
                "muon",
                _RULES["muon"] | {"optimizer.weight_decay": 0.1},
                [0.01],
                others={"optimizer.aux_lr": _octaves(0.001, 4)},
            )
        ],
        search={"mode": "refine", "trials": 8, "rate": "optimizer.aux_lr"},
    )
    s1 = _file(
        "ladder-s1",
        "The ladder's first size at 20 tokens per parameter: rates and weight decays of three rules.",
        _workload("s1", 20),
        {rule: _octaves(rate, 5) for rule, rate in _FIRST.items()},
        seeds=[0, 1],
        fresh=_SIZES["s1"][-1],
        decays=_DECAYS,
        trials=24,
    )
    return [aux, s1]


def _file(
    name: str,
    comment: str,
    base: Mapping[str, Any],
    rates: Mapping[str, Sequence[float]],
    *,
    seeds: Sequence[int],
    fresh: int,
    decays: Sequence[float],
    trials: int,
) -> SweepFile:
    others = {"optimizer.weight_decay": decays}
    blocks = [Block(rule, _RULES[rule], rates[rule], others=others) for rule in rates]
    search = {"mode": "refine", "trials": trials}
    return SweepFile(
        name, comment, {**base, "optimizer.aux_lr": _AUX}, seeds, blocks, fresh_seeds=fresh, search=search
    )


def _workload(size: str, tokens: float) -> dict[str, Any]:
    """The settings of all runs at a size and a length in tokens per parameter."""
    parameters, batch, warmup, _ = _SIZES[size]
    return {
        "device": "cpu",
        "task": "pydocs",
        "held_out_tokens": 65_536,
        "model": f"llama-{size}",
        "seq_len": _SEQUENCE,
        "batch_size": batch,
        "steps": round(tokens * parameters / (batch * _SEQUENCE)),
        "schedule.name": "wsd",
        "schedule.warmup": warmup,
        "schedule.floor": 0,
        "spectra.final": True,
    }


def _octaves(lowest: float, count: int) -> list[float]:
    return [float(f"{lowest * 2.0**i:.3g}") for i in range(count)]
