"""What a run cost beside time, as columns of the frame; they need no torch, since the record has them."""

from typing import Any

from htbench.harness.store.record import RunRecord

TOTAL_FLOPS = "total_flops"
# Of `RunRecord.cost`. Records of older code, and of models that can't be counted, lack the estimates.
_KEPT = (
    *("parameters", "tokens", "flops_per_step", "optimizer_flops_per_step", "state_bytes"),
    "estimated_peak_memory",
)
COLUMNS = (*_KEPT, "peak_memory", TOTAL_FLOPS)


def outcome(record: RunRecord) -> dict[str, Any]:
    """The columns of COLUMNS; of a record without estimates none, so that frames of older stores stay."""
    if not {"flops_per_step", "optimizer_flops_per_step"} <= record.cost.keys():
        return {}
    columns: dict[str, Any] = {name: record.cost.get(name) for name in _KEPT}
    work = record.cost["flops_per_step"] + record.cost["optimizer_flops_per_step"]
    return columns | {"peak_memory": record.peak_memory, TOTAL_FLOPS: record.steps * work}
