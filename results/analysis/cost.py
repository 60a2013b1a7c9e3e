"""What a run cost beside time, as columns of the frame; they need no torch, since the record has them."""

from __future__ import annotations

from typing import Any

from harness.store.record import RunRecord

TOTAL_FLOPS = "total_flops"
# Names in `RunRecord.cost`. Records of older code, and of models that can't be counted, lack the estimates.
COLUMNS = (
    *("parameters", "tokens", "flops_per_step", "optimizer_flops_per_step", "state_bytes"),
    *("estimated_peak_memory", "peak_memory", TOTAL_FLOPS),
)


def outcome(record: RunRecord) -> dict[str, Any]:
    """The columns of COLUMNS that a record has."""
    found: dict[str, Any] = {name: record.cost[name] for name in COLUMNS if name in record.cost}
    if {"flops_per_step", "optimizer_flops_per_step"} <= found.keys():
        found[TOTAL_FLOPS] = record.steps * (found["flops_per_step"] + found["optimizer_flops_per_step"])
    return found | {"peak_memory": record.peak_memory}
