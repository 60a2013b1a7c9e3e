"""How a run was made: what of it can change its numbers or its times, as columns of the frame."""

from collections.abc import Mapping
from typing import Any

from htbench.results.frames.metrics import is_missing, word

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
