"""How a run was made, as columns of the frame: its code, torch, machine, processes and times."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from htbench.harness.store.record import RunRecord
from htbench.results.frames.metrics import is_missing, word

COLUMNS = (
    *("began", "ended", "code", "python", "torch", "device", "threads", "processes", "micro_batch"),
    *(
        "stack",
        "gpu_stack",
        "compile",
        "timed_steps",
        "seconds_per_step_sd",
        "cpu_seconds_per_step",
        "items_digest",
        "imports",
    ),
    "outside",  # as JSON what a record notes of parts from outside
    "reach",  # percent of the entries of matrices and kernels that the rule trains in its own way, if few
)
# Columns of the frame that can change numbers, if only in their last digits: they must not differ in a cell.
CAN_CHANGE = (
    *("torch", "machine", "device", "threads", "processes", "micro_batch", "gpu_stack", "compile"),
    "items_digest",  # which items of the test split were scored; empty for a run that diverged
)
OF_A_ROW = "imports"  # likewise, but between rows it may differ: each has parts of its own
# Times are comparable only if these agree. Precision must agree as well, but all runs of a workload share it.
TIMING = ("machine", "threads", "processes", "micro_batch", "stack", "compile")


def is_told(run: Mapping[str, Any]) -> bool:
    """Whether a row of the frame says what its run was made with."""
    return not is_missing(run.get("code"))


def timing(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of TIMING of a row of the frame."""
    return tuple(word(run.get(name)) for name in TIMING)


def timings(runs: Iterable[Mapping[str, Any]]) -> int:
    """How many conditions some runs were timed under; times of more than one are never pooled."""
    return len({timing(run) for run in runs})


def outcome(record: RunRecord) -> dict[str, Any]:
    """The columns of COLUMNS and `machine`, read from a record."""
    where, config, timing = record.environment, record.config, record.timing
    ran = where.get("imports")  # `harness.config.parts.unseen`
    noted, reach = where.get("outside"), where.get("reach")
    percent = reach.get("percent") if isinstance(reach, Mapping) else None
    stack = where.get("stack", 1)
    is_noted = isinstance(noted, Mapping) and isinstance(noted.get("defaults"), Mapping)
    return {
        "began": record.began,
        "ended": record.ended,
        "code": where.get("code"),
        "python": where.get("python"),
        "torch": where.get("torch"),
        "device": "cuda" if where.get("gpu") else "cpu",
        "threads": config.get("threads", 1),
        "processes": where.get("world_size", config.get("processes", 1)),
        "micro_batch": where.get("micro_batch", config.get("micro_batch")),
        "stack": stack,
        "gpu_stack": stack if where.get("gpu") else None,
        "compile": config.get("compile", False),
        "machine": where.get("gpu") or where.get("cpu"),
        "timed_steps": timing.get("steps"),
        "seconds_per_step_sd": timing.get("sd"),
        "cpu_seconds_per_step": timing.get("cpu"),
        "items_digest": record.items_digest,
        "imports": ", ".join(f"{name} {code}" for name, code in ran.items())
        if isinstance(ran, dict)
        else None,
        "outside": json.dumps(noted, sort_keys=True) if is_noted else None,
        "reach": percent if isinstance(percent, int | float) else None,
    }
