"""The ladder: three rules at several sizes and lengths of a run that two cores train in some hours.

Models are trained to 20 tokens per parameter, where the paper has 9 to 40. All runs have one schedule: a
warm-up, the same for all lengths at a size, a constant rate, and a fall to zero over the last fifth.
docs/ladder.md says what was decided before the first replica ran.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from htbench.sweeps.experiments.files import Block, Settings, SweepFile

ASIDES = ("ladder-s1-others", "ladder-s1-ablations")  # at one size, outside of what was asked first
# Asked afterwards: `sweeps/experiments/split.py`.
SPLIT = tuple(f"ladder-split-{part}" for part in ("s1", "s1-more", "s2", "s3", "batch"))
SEEDS = "seeds"
SEARCHED = f"ladder-split-{SEEDS}"  # search runs only, on more seeds than the searches of the others
# Later sweeps have settings that earlier ones found.
ORDER = (
    "ladder-aux",
    "ladder-s1",
    "ladder-s2",
    "ladder-s3",
    "ladder-s1-lengths",
    "ladder-s2-lengths",
    "ladder-s3-lengths",
    "ladder-s1-batch",
    *ASIDES,
    *SPLIT,
    SEARCHED,
)
QUICK = ("ladder-quick",)
GPU = tuple(f"ladder-gpu-{size}" for size in ("s1", "s2", "s3", "s4", "s5"))  # on another corpus

_SEQUENCE = 64  # tokens
# Of each size: parameters, sequences in a batch, steps of warm-up, fresh seeds.
_SIZES = {
    "s1": (45_344, 8, 100, 16),
    "s2": (114_000, 16, 150, 8),
    "s3": (238_400, 16, 200, 4),
    "s4": (615_456, 32, 300, 4),
    "s5": (3_665_088, 128, 500, 2),
}
RULES: dict[str, dict[str, Any]] = {
    "adamw": {},
    "muon": {"optimizer.ns_dtype": "float32"},
    "htmuon": {"optimizer.p": 0.125, "optimizer.ns_dtype": "float32"},
}
AUX = 0.0005  # rate of the AdamW beside the matrix rules at all sizes: `ladder-aux` found it
_FIRST = {"adamw": 0.001, "muon": 0.0025, "htmuon": 0.005}  # the lowest of five octaves at S1
DECAY, DECAYS = "optimizer.weight_decay", (0.0, 0.03, 0.1)
# What `ladder-s1` found. The decay, the same for all three, is kept; rates are tuned again everywhere else.
_FOUND, _FOUND_DECAY = {"adamw": 0.006, "muon": 0.01, "htmuon": 0.02}, 0.0
SLOWER = 0.75  # the best rate falls as this power of one over the steps, by pilots: where a search begins
# Other rules at S1: the lowest of four octaves, and what is fixed.
_KIN = {"optimizer.ns_dtype": "float32"}
_OTHERS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "normuon": ("normuon", 0.0025, _KIN),
    "htmuon_normuon": ("htmuon_normuon", 0.005, {**_KIN, "optimizer.p": 0.125}),
    "htmuon_ns": ("htmuon_ns", 0.005, {**_KIN, "optimizer.p": 0.125}),
    "htmuon_ht": ("htmuon_ht", 0.005, {}),
    "muon_svd": ("muon_svd", 0.0025, {}),
    "adamuon": ("adamuon", 0.001, _KIN),
    "adam": ("adam", 0.001, {}),
    "mars": ("mars", 0.001, {}),
    "soap": ("soap", 0.001, {}),
    "cautious": ("cautious", 0.001, {}),
    "cosmos": ("cosmos", 0.001, {}),
    "galore": ("galore", 0.005, {}),
    "sophia": ("sophia", 0.0002, {}),
}
# As released it leaves the head to its AdamW, which needs a higher rate than what Muon leaves to its own.
# Added after a look: with `AUX` alone it was last of all.
_TUNED_TOO = {"adamuon": {"optimizer.aux_lr": [AUX, 0.005]}}
_HEAVY = {**_KIN, "optimizer.p": 0.125}
_ABLATIONS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "htmuon": ("htmuon", 0.005, _HEAVY),
    "htmuon-p0.05": ("htmuon", 0.005, {**_HEAVY, "optimizer.p": 0.05}),
    "htmuon-p0.25": ("htmuon", 0.01, {**_HEAVY, "optimizer.p": 0.25}),
    "htmuon-p0.5": ("htmuon", 0.02, {**_HEAVY, "optimizer.p": 0.5}),
    "htmuon-interval5": ("htmuon", 0.005, {**_HEAVY, "optimizer.interval": 5}),
}


def files() -> list[SweepFile]:
    """The sweep files in their order, then the quick one."""
    fixed = with_rule("muon", {**RULES["muon"], DECAY: 0.1})
    aux = SweepFile(
        "ladder-aux",
        "The rate of the AdamW beside a matrix rule: of the vectors alone, the rule has embedding and head.",
        workload("s1"),
        [0, 1],
        [Block("muon", fixed, [0.01], others={"optimizer.aux_lr": octaves(0.001, 4)})],
        search={"mode": "refine", "trials": 8, "rate": "optimizer.aux_lr"},
    )
    first = [
        Block(rule, with_rule(rule, RULES[rule]), octaves(rate, 5), others={DECAY: DECAYS})
        for rule, rate in _FIRST.items()
    ]
    return [
        aux,
        _file(
            "s1", "Rates and weight decays of three rules at the first size.", first, seeds=[0, 1], trials=24
        ),
        _file("s2", "Three rules at the second size.", _blocks("s2", [20])),
        _file("s3", "Three rules at the third size.", _blocks("s3", [20], count=3)),
        _file("s1-lengths", "Three rules at the first size, shorter and longer.", _blocks("s1", [5, 10, 80])),
        _file("s2-lengths", "The second size, shorter.", _shorter("s2")),
        _file("s3-lengths", "The third size, shorter.", _shorter("s3", count=3)),
        _file(
            "s1-batch",
            "A control: the first size, the batch four times as large.",
            _blocks("s1", [20], batch=32),
        ),
        _file("s1-others", "The paper's other optimizers at the first size.", _listed(_OTHERS), fresh=8),
        _file("s1-ablations", "Ablations at the first size.", _listed(_ABLATIONS), fresh=8),
        _file("quick", "The first size in a hurry.", _blocks("s1", [20]), fresh=4, trials=8),
        *(
            _file(
                f"gpu-{size}",
                "Three rules at a size, on a GPU and a larger corpus.",
                [*_blocks(size, [20]), *_shorter(size)],
            )
            for size in _SIZES
        ),
    ]


def _file(
    name: str,
    comment: str,
    blocks: Sequence[Block],
    *,
    seeds: Sequence[int] = (0,),
    fresh: int | None = None,
    trials: int = 10,
) -> SweepFile:
    size = next((size for size in _SIZES if size in name.split("-")), "s1")
    found: dict[str, Any] = {} if name == "s1" else {DECAY: _FOUND_DECAY}
    # Else the best p would compete in the endpoint.
    found |= {"replica": "ablation"} if name == "s1-ablations" else {}
    on = {"device": "auto", "task": "pysource"} if name.startswith("gpu") else {}
    return SweepFile(
        f"ladder-{name}",
        comment,
        {**workload(size), **on, "optimizer.aux_lr": AUX, **found},
        seeds,
        blocks,
        fresh_seeds=fresh or _SIZES[size][-1],
        search={"mode": "refine", "trials": trials},
    )


def _shorter(size: str, count: int = 4) -> list[Block]:
    """What gives AdamW's law its three lengths, and the rules a place within what AdamW reached."""
    return [*_blocks(size, [5], ["adamw"]), *_blocks(size, [10], count=count)]


def _blocks(
    size: str,
    lengths: Iterable[int],
    rules: Iterable[str] = tuple(RULES),
    *,
    count: int = 4,
    batch: int | None = None,
) -> list[Block]:
    """Blocks with octaves around the rate that is likely for their steps."""
    blocks = []
    for length in lengths:
        these = workload(size, length, batch)
        changed = {name: value for name, value in these.items() if value != workload(size)[name]}
        for rule in rules:
            likely = _FOUND[rule] * (workload("s1")["steps"] / these["steps"]) ** SLOWER
            name = rule if length == 20 else f"{rule}-{length}"
            settings = {**changed, **with_rule(rule, RULES[rule])}
            blocks.append(Block(name, settings, octaves(round_rate(likely * 2 ** ((1 - count) / 2)), count)))
    return blocks


def _listed(rules: Mapping[str, tuple[str, float, dict[str, Any]]]) -> list[Block]:
    return [
        Block(name, with_rule(rule, fixed), octaves(rate, 4), others=_TUNED_TOO.get(name, {}))
        for name, (rule, rate, fixed) in rules.items()
    ]


def with_rule(rule: str, settings: Settings) -> dict[str, Any]:
    """The settings of a block of a rule."""
    return {"optimizer.name": rule, **settings}


def workload(size: str, length: int = 20, batch: int | None = None) -> dict[str, Any]:
    """What all runs share at a size and a length in tokens per parameter."""
    parameters, usual, warmup, _ = _SIZES[size]
    sequences = batch or usual
    return {
        "device": "cpu",
        "task": "pydocs",
        "held_out_tokens": 65_536,
        "model": f"llama-{size}",
        "seq_len": _SEQUENCE,
        "batch_size": sequences,
        "steps": round(length * parameters / (sequences * _SEQUENCE)),
        "schedule.name": "wsd",
        "schedule.warmup": warmup,
        "schedule.floor": 0,
        "spectra.final": True,
    }


def octaves(lowest: float, count: int) -> list[float]:
    """So many rates, each twice the one before."""
    return [float(f"{lowest * 2.0**i:.3g}") for i in range(count)]


def round_rate(rate: float) -> float:
    """A rate of two digits, which people can type."""
    return float(f"{rate:.2g}")
