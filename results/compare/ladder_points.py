"""From a frame to the rungs of its ladders: workloads that differ in size and length only.

A ladder has one task, one data fingerprint, one schedule but for its warm-up, and equal settings but for
model, steps and batch. A model is a size; what it is called does not matter, its parameters are counted.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config.settings import FIELDS
from htbench.harness.store import Store
from htbench.results.compare.contender import estimate_gains, make_judge_row
from htbench.results.compare.judge import Row
from htbench.results.compare.select import Choice
from htbench.results.compare.summary import values_by_seed
from htbench.results.compare.workload import Workload
from htbench.results.frames import identity
from htbench.results.frames.columns import DATA
from htbench.results.frames.metrics import Metric, is_missing
from htbench.results.frames.provenance import timing

BASELINE = "adamw"
HORIZONS = 3  # the least lengths for a law of a size
_ALIKE = 1.1  # ratios of tokens to parameters that differ by less are one
# What a ladder's rows differ in.
_LENGTH = {"steps", "epochs", "batch_size", "micro_batch", "revisions.model"}


class Guard(str, Enum):
    """Why a number is not given, or less sure than it looks."""

    FEW_HORIZONS = "few horizons"  # fewer lengths of AdamW than a law needs
    EDGE = "edge"  # the optimum of the row lies at an edge of what was searched
    BASELINE_EDGE = "edge of baseline"  # one of AdamW's does
    RISING = "rising"  # AdamW is not better after more tokens
    MISSED = "missed"  # the law does not predict what was left out of its fit
    UNCHECKED = "unchecked"  # there are too few points to leave one out
    CONTROL = "other batch"  # the row is a control of the batch
    ABOVE = "above"  # it is better than AdamW ever was at this size
    BELOW = "below"  # it is worse than AdamW ever was at this size
    NO_SPREAD = "no spread"  # no row has two seeds, so there are no intervals


@dataclass(frozen=True)
class Rung:
    """A rule at a size and a length.

    Attributes:
        model, optimizer: its names.
        parameters, tokens, batch: of the model, of a run, and samples of a step.
        row: losses of its replicas on the test split, with its search and its test items.
        at_edge: whether its optimum lies at an edge of what was searched.
        step_flops: operations of a step, model and optimizer; None: not known.
        optimizer_share: the part of these that is the optimizer's.
        step_seconds: of a step; None unless all runs had the same conditions.
        conditions: those.
        keys: of its replicas.
    """

    model: str
    optimizer: str
    parameters: float
    tokens: float
    batch: int
    row: Row
    at_edge: bool = False
    step_flops: float | None = None
    optimizer_share: float | None = None
    step_seconds: float | None = None
    conditions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The workload: rows of one place are compared seed by seed."""
        return f"{self.model}/{self.batch}/{self.tokens:g}"

    @property
    def ratio(self) -> float:
        """Tokens per parameter."""
        return self.tokens / self.parameters

    def is_at(self, ratio: float) -> bool:
        """Whether it has about so many tokens per parameter."""
        return 1 / _ALIKE < self.ratio / ratio < _ALIKE


def find_rungs(workloads: Sequence[Workload]) -> list[tuple[str, list[Rung]]]:
    """The rungs of each ladder and its task, where AdamW has three lengths of a size; others say nothing new.

    Args:
        workloads: of a frame; without a store nothing is known of lengths.
    """
    rows = (row for workload in workloads for row in workload.part)
    baseline = (row for row in rows if row["rule"] == BASELINE and not is_missing(row.get("tokens")))
    if not _has_lengths(((row["task"], row["model"]), row["tokens"]) for row in baseline):
        return []  # records are read only where there may be a ladder
    points = []
    for workload in workloads:
        store = workload.store
        if store and workload.metric.is_log and workload.is_fair:
            candidates = (_make_rung(choice, workload.metric, store) for choice in workload.choices)
            points += [point for point in candidates if point is not None]
    return [
        (shared[0], [rung for _, rung in members])
        for shared, members in grouped(points, itemgetter(0)).items()
        if _has_lengths((rung.model, rung.tokens) for _, rung in members if rung.optimizer == BASELINE)
    ]


def _has_lengths(of_baseline: Iterable[tuple[Any, float]]) -> bool:
    """Whether AdamW has three lengths of a size, by pairs of size and tokens."""
    lengths = grouped(of_baseline, itemgetter(0)).values()
    return any(len({tokens for _, tokens in size}) >= HORIZONS for size in lengths)


def _make_rung(choice: Choice, metric: Metric, store: Store) -> tuple[tuple[Any, ...], Rung] | None:
    """What was chosen of a rule; None while a run may still change it."""
    runs = [run for run in choice.replicas if run["state"] == "completed"]
    record = store.record(str(runs[0]["key"])) if runs and choice.is_settled else None
    row = make_judge_row(choice.optimizer, values_by_seed(runs, metric), metric, runs, choice, store)
    if not record or not row or any(is_missing(runs[0].get(name)) for name in ("tokens", "parameters")):
        return None
    values = identity.of_record(record)
    apart = {name: value for name, value in values.items() if name not in _LENGTH}
    schedule = [
        values.get(name) for name in FIELDS if name.startswith("schedule.") and name != "schedule.warmup"
    ]
    alike = {timing(run) for run in runs}
    rung = Rung(
        str(choice.fixed["model"]),
        choice.optimizer,
        float(runs[0]["parameters"]),
        float(runs[0]["tokens"]),
        int(values["batch_size"]),
        row,
        at_edge=bool(estimate_gains(choice, metric)),
        step_flops=_mean(float(run["total_flops"]) / float(run["steps"]) for run in runs),
        optimizer_share=_mean(
            float(run["optimizer_flops_per_step"]) * float(run["steps"]) / float(run["total_flops"])
            for run in runs
        ),
        step_seconds=_mean(float(run["seconds_per_step"]) for run in runs) if len(alike) == 1 else None,
        conditions=next(iter(alike)),
        keys=tuple(str(run["key"]) for run in runs),
    )
    shared = (
        str(choice.fixed["task"]),
        values[DATA],
        identity.setting(apart),
        tuple(map(str, schedule)),
    )
    return shared, rung


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return statistics.fmean(numbers) if all(map(math.isfinite, numbers)) else None
