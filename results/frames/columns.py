"""The columns that every frame has, in their order: the type of each, and where a record has it.

Between FIRST and LAST are tuned settings, seeds, metrics and what only some runs have.
"""

import json
from collections.abc import Mapping
from typing import Any

from htbench.harness.store.points import SEED_FIELDS
from htbench.harness.store.record import RunRecord
from htbench.results.frames.metrics import TASK

WORD, NUMBER, COUNT, FLAG, TIME = "str", "float64", "Int64", "boolean", "datetime64[ns, UTC]"
PLAIN = "object"  # lists and mixtures; None if missing

DATA = "data_fingerprint"
TOTAL_FLOPS = "total_flops"

IN_PLANS = ("sweep", "block", "stage", "slot", "look", "allowed", "refines", "row")  # fields of a point
_MORE = "search ranges key state reason task model setting protocol replica candidate score rule variant"
FIRST = dict.fromkeys([*IN_PLANS, *_MORE.split(), "optimizer"], WORD)
FIRST |= {"look": COUNT, "allowed": COUNT, "score": PLAIN}
SEEDS = dict.fromkeys(SEED_FIELDS, COUNT)
OF_TASK = dict(zip(TASK, (WORD, WORD, FLAG), strict=True))
# Column -> its type and its place in a record; no place: `read_record` makes it of several.
_OF_RECORD = {
    "began": (TIME, ".began"),
    "ended": (TIME, ".ended"),
    "code": (WORD, "environment.code"),
    "python": (WORD, "environment.python"),
    "torch": (WORD, "environment.torch"),
    "device": (WORD, ""),
    "threads": (COUNT, ""),
    "processes": (COUNT, ""),
    "micro_batch": (COUNT, ""),
    "stack": (COUNT, ""),  # runs that made their updates as one
    "gpu_stack": (COUNT, ""),  # the same on a GPU, where it rounds in another way
    "compile": (FLAG, ""),
    "timed_steps": (COUNT, "timing.steps"),
    "seconds_per_step_sd": (NUMBER, "timing.sd"),
    "cpu_seconds_per_step": (NUMBER, "timing.cpu"),
    "items_digest": (WORD, ".items_digest"),
    "imports": (WORD, ""),
    "outside": (WORD, ""),  # as JSON what a record notes of parts from outside
    "reach": (NUMBER, ""),  # percent of entries of matrices that the rule trains in its own way, if few
    "parameters": (COUNT, "cost.parameters"),
    "tokens": (COUNT, "cost.tokens"),
    "flops_per_step": (NUMBER, "cost.flops_per_step"),
    "optimizer_flops_per_step": (NUMBER, "cost.optimizer_flops_per_step"),
    "state_bytes": (COUNT, "cost.state_bytes"),
    "estimated_peak_memory": (COUNT, "cost.estimated_peak_memory"),
    "peak_memory": (COUNT, ".peak_memory"),
    TOTAL_FLOPS: (NUMBER, ""),
    "steps": (COUNT, ".steps"),
    "seconds_per_step": (NUMBER, ".seconds_per_step"),
    "useful_seconds": (NUMBER, ".useful_seconds"),
    "machine": (WORD, ""),
}
LAST = {DATA: WORD, **{name: kind for name, (kind, _) in _OF_RECORD.items()}}
_PLACES = [(name, *place.split(".")) for name, (_, place) in _OF_RECORD.items() if place]
_names = list(_OF_RECORD)
# Records of older code, and of models that can't be counted, lack these together.
COST = _names[_names.index("parameters") : _names.index("steps")]


def read_record(record: RunRecord) -> dict[str, Any]:
    """The columns that a record has; without estimates none of COST, so that frames of older stores stay."""
    where, config = record.environment, record.config
    parts = {**vars(record), "": vars(record)}
    ran = where.get("imports")  # `harness.config.parts.unseen`
    noted, reach = where.get("outside"), where.get("reach")
    percent = reach.get("percent") if isinstance(reach, Mapping) else None
    stack = where["stack"] if isinstance(where.get("stack"), int) else 1
    is_noted = isinstance(noted, Mapping) and isinstance(noted.get("defaults"), Mapping)
    columns = {name: parts[part].get(key) for name, part, key in _PLACES} | {
        "device": "cuda" if where.get("gpu") else "cpu",
        "threads": config.get("threads", 1),
        "processes": where.get("world_size", config.get("processes", 1)),
        "micro_batch": where.get("micro_batch", config.get("micro_batch")),
        "stack": stack,
        "gpu_stack": stack if where.get("gpu") else None,
        "compile": config.get("compile", False),
        "imports": ", ".join(f"{at} {code}" for at, code in ran.items()) if isinstance(ran, dict) else None,
        "outside": json.dumps(noted, sort_keys=True) if is_noted else None,
        "reach": percent if isinstance(percent, int | float) else None,
        "machine": where.get("gpu") or where.get("cpu"),
    }
    if {"flops_per_step", "optimizer_flops_per_step"} <= record.cost.keys():
        work = record.cost["flops_per_step"] + record.cost["optimizer_flops_per_step"]
        return columns | {TOTAL_FLOPS: record.steps * work}
    return {name: value for name, value in columns.items() if name not in COST}
