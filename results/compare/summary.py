"""Numbers of several runs as one: what a metric is over seeds, in the units that people see.

Only completed runs with a finite value count. Tables and figures both start from here.
"""

import math
from collections.abc import Iterable, Sequence

from htbench.harness.show.status import Status
from htbench.results.compare.select import Row
from htbench.results.compare.stats import Summary, summarize
from htbench.results.compare.to_target import read_seeds
from htbench.results.frames.metrics import Metric


def finite_values(runs: Iterable[Row], column: str) -> list[float]:
    """The finite values of a column among completed runs."""
    values = (run.get(column) for run in runs if run["state"] == Status.COMPLETED)
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def metric_summary(runs: Sequence[Row], split: str, metric: Metric) -> Summary | None:
    """A metric over runs, in its printed unit; None if no run has a value.

    Args:
        runs: rows of the frame.
        split: "val" or "test".
        metric: what to summarise.
    """
    values = finite_values(runs, f"{split}_{metric.name}")
    return summarize([value * metric.scale for value in values]) if values else None


def values_by_seed(runs: Sequence[Row], metric: Metric) -> dict[tuple[int, int], float]:
    """A test metric by the seeds that pair runs, in its printed unit; empty if no run has a value."""
    by_seed = {read_seeds(run): finite_values([run], f"test_{metric.name}") for run in runs}
    return {seed: values[0] * metric.scale for seed, values in by_seed.items() if values}
