"""Hours until a run has the perplexity that Muon ends with, read from its curve.

The target is the validation perplexity at the end of Muon's run with the same seeds. At full scale this is
the published way, since the reported split is the only one. A curve has no times: all steps of a run count as
equally long.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.paper import reported
from harness.paper.reported import Reported
from harness.store import Store, curve
from results.compare.quantities import Quantity
from results.compare.select import Row

Seeds = tuple[int, int]


def muon(line: Reported) -> Reported:
    """Muon's row of the table of wall-clock times, on the workload of a published time to a target."""
    lines = reported.of_table("wall_clock")
    return next(
        one
        for one in lines
        if one.model == line.model and one.setting.optimizer == "muon" and one.metric == "perplexity"
    )


def share_of_steps(
    store: Store, run: Row, targets: Mapping[Seeds, float], perplexity: Quantity
) -> float | None:
    """The share of a run's steps after which it was first evaluated at its target or below.

    Args:
        store: where the curve is.
        run: a row of the frame.
        targets: by (seed, data_seed).
        perplexity: how it is computed.

    Returns:
        None if it never was, or has no target or curve.
    """
    target = targets.get((run["seed"], run["data_seed"]))
    if target is None:
        return None
    for row in curve.read(store.files(str(run["key"])).metrics):
        reached = perplexity.value(row, "val")
        if reached is not None and reached <= target:
            return float(row["step"]) / float(run["steps"])
    return None
