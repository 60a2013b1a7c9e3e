"""The split: how much of Muon's gain over AdamW is its map, and how much that two rates train a model?

The ladder's Muon trains every matrix, embedding and head included. Elsewhere Muon has the hidden matrices
only, and an AdamW with a rate of its own has embedding, head and vectors. So a Muon that is better than AdamW
may owe it to this split, which AdamW can have, too: as named groups of parameters. Here every rule is tuned
with both. docs/ladder.md says what was decided before the first replica ran.
"""

from typing import Any

from sweeps.experiments.files import Block, SweepFile
from sweeps.experiments.ladder import AUX, DECAY, RULES, octaves, with_rule, workload

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


def files() -> list[SweepFile]:
    """The sweep files in their order."""
    blocks = [
        Block(
            name,
            with_rule(rule, fixed),
            octaves(lowest, 4),
            others=others,
            row="" if name in _PLAIN else name,
        )
        for name, (rule, fixed, lowest, others) in _ROWS.items()
    ]
    return [
        SweepFile(
            "ladder-split-s1",
            "Muon's map or its split? Every rule with one rate for all parameters and with two.",
            {**workload("s1"), DECAY: 0.0},
            [0, 1],
            blocks,
            fresh_seeds=16,
            search={"mode": "refine", "trials": _TRIALS},
            data_seeds=[0, 1],
        )
    ]
