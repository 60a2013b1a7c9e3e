"""The split: how much of Muon's gain over AdamW is its map, and how much that two rates train a model?

The ladder's Muon trains every matrix, embedding and head included. Elsewhere Muon has the hidden matrices
only, and an AdamW with a rate of its own has embedding, head and vectors. So a Muon that is better than AdamW
may owe it to this split, which AdamW can have, too: as named groups of parameters. Here every rule is tuned
with both. docs/ladder.md says what was decided before the first replica ran.
"""

from collections.abc import Iterable
from typing import Any

from htbench.sweeps.experiments.files import Block, Settings, SweepFile
from htbench.sweeps.experiments.ladder import (
    AUX,
    DECAY,
    RULES,
    SEEDS,
    SLOWER,
    octaves,
    round_rate,
    with_rule,
    workload,
)

_TRIALS = 24  # settings of a row at S1, at most
# Rates of the AdamW that trains embedding, head and vectors. The last one came when the one before was best
# on the search seeds, and no fresh seed had run.
_REST = octaves(0.002, 5)
_HIDDEN = {"optimizer.routing": "hidden"}
_OF_MATRICES = "optimizer.groups.matrices"
# Muon without its map: the same momentum, as released.
_MOMENTUM = {
    f"{_OF_MATRICES}.{name}": value
    for name, value in {"optimizer": "sgdm", "momentum": 0.95, "nesterov": True, "weight_decay": 0.0}.items()
}
_PLAIN = ("adamw", "muon-all", "htmuon-all")  # rows of tables that are called as their optimizer
# By block: its rule, what it fixes, the lowest of four octaves of its rate, what else is tuned.
_ROWS: dict[str, tuple[str, dict[str, Any], float, dict[str, Any]]] = {
    "adamw": ("adamw", {}, 0.002, {"optimizer.betas": [[0.9, 0.95], [0.9, 0.99], [0.9, 0.999]]}),
    "adamw-split": ("adamw", {}, 0.002, {f"{_OF_MATRICES}.lr": octaves(0.002, 4)}),
    "muon-all": ("muon", {**RULES["muon"], "optimizer.aux_lr": AUX}, 0.005, {}),
    "htmuon-all": ("htmuon", {**RULES["htmuon"], "optimizer.aux_lr": AUX}, 0.01, {}),
    "muon-hidden": ("muon", {**RULES["muon"], **_HIDDEN}, 0.005, {"optimizer.aux_lr": _REST}),
    "htmuon-hidden": ("htmuon", {**RULES["htmuon"], **_HIDDEN}, 0.01, {"optimizer.aux_lr": _REST}),
    "muon-hidden-beta2": (
        "muon",
        {**RULES["muon"], **_HIDDEN, "optimizer.aux_betas": [0.9, 0.999]},
        0.005,
        {"optimizer.aux_lr": _REST},
    ),
    "sgdm-split": ("adamw", _MOMENTUM, 0.004, {f"{_OF_MATRICES}.lr": octaves(0.05, 4)}),
}


# What S1 found on its search seeds: the rate of each row, and what stands beside it.
_FOUND: dict[str, tuple[float, dict[str, Any]]] = {
    "adamw": (0.008, {"optimizer.betas": [0.9, 0.95]}),
    "adamw-split": (0.016, {f"{_OF_MATRICES}.lr": 0.008}),
    "muon-all": (0.01, {}),
    "htmuon-all": (0.02, {}),
    "muon-hidden": (0.00707, {"optimizer.aux_lr": 0.016}),
    "htmuon-hidden": (0.02, {"optimizer.aux_lr": 0.032}),
}
_MORE = ("muon-hidden-beta2", "sgdm-split")  # not of the primary endpoints
_NEW = ("adamw-split", "muon-hidden", "htmuon-hidden")  # the ladder has the other three at S2 and S3
_RANKED = ("adamw", "muon-hidden", "htmuon-hidden")  # how many settings and seeds put them in order?


def files() -> list[SweepFile]:
    """The sweep files in their order."""
    batches = [_with_batch(name, length) for length in (10, 20) for name in _FOUND]
    return [
        _first(
            "s1", "Muon's map or its split? Every rule with one rate for all parameters and with two.", _FOUND
        ),
        _first("s1-more", "The split beside another beta2 of the rest, and without any map.", _MORE),
        _later("s2", "The split at the second size.", [_around(n, workload("s2"), 4) for n in _NEW], 8, 8),
        _later("s3", "The split at the third size.", [_around(n, workload("s3"), 3) for n in _NEW], 6, 4),
        _later("batch", "The split at the first size with the second one's batch.", batches, 8, 16),
        SweepFile(
            f"ladder-split-{SEEDS}",
            "How many settings and seeds must a search have? The first round of three rows on eight seeds.",
            {**workload("s1"), DECAY: 0.0},
            [*range(8)],
            _first_round(_RANKED),
            data_seeds=[*range(8)],
        ),
    ]


def _first(part: str, comment: str, names: Iterable[str]) -> SweepFile:
    """A sweep at S1, each row with two rates, on two search seeds with an order of the data each."""
    return SweepFile(
        f"ladder-split-{part}",
        comment,
        {**workload("s1"), DECAY: 0.0},
        [0, 1],
        _first_round(names),
        fresh_seeds=16,
        search={"mode": "refine", "trials": _TRIALS},
        data_seeds=[0, 1],
    )


def _first_round(names: Iterable[str]) -> list[Block]:
    return [_block(name, octaves(_ROWS[name][2], 4), others=_ROWS[name][3]) for name in names]


def _later(part: str, comment: str, blocks: list[Block], trials: int, fresh: int) -> SweepFile:
    """A sweep whose rates are sought around what S1 found, on one search seed."""
    size = "s1" if part == "batch" else part
    base = {**workload(size, batch=16), DECAY: 0.0}
    search = {"mode": "refine", "trials": trials}
    return SweepFile(f"ladder-split-{part}", comment, base, [0], blocks, fresh_seeds=fresh, search=search)


def _around(row: str, there: Settings, count: int) -> Block:
    """A block with octaves around the rate that is likely for a workload, and the likely other rate."""
    (other, value), *_ = _FOUND[row][1].items()
    slower = _slower(there)
    return _block(row, _octaves_around(_FOUND[row][0] * slower, count), {other: round_rate(value * slower)})


def _with_batch(row: str, length: int) -> Block:
    """A block with twice the batch, so half the steps; the other rate is S1's, or twice as much."""
    there = workload("s1", length, 16)
    rate, beside = _FOUND[row]
    others = {name: [value, 2 * value] for name, value in beside.items() if isinstance(value, float)}
    fixed = {name: value for name, value in beside.items() if name not in others}
    rates = _octaves_around(rate * _slower(there), 3 if others else 4)
    return _block(row, rates, {"steps": there["steps"], **fixed}, others, f"{row}-{length}")


def _slower(there: Settings) -> float:
    """By how much rates of S1 are likely to change with the steps."""
    ratio: float = (workload("s1")["steps"] / there["steps"]) ** SLOWER
    return ratio


def _octaves_around(rate: float, count: int) -> list[float]:
    return octaves(round_rate(rate * 2 ** ((1 - count) / 2)), count)


def _block(
    row: str,
    rates: list[float],
    fixed: Settings | None = None,
    others: Settings | None = None,
    name: str = "",
) -> Block:
    rule, own, _, _ = _ROWS[row]
    settings = with_rule(rule, {**own, **(fixed or {})})
    return Block(name or row, settings, rates, others=others or {}, row="" if row in _PLAIN else row)
