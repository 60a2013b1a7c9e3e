"""`sweep cost`, and a line of `sweep status`: the GPU- and core-hours that a sweep has taken so far.

An attempt counts with what its job asked for, from its begin to its end; the wait in the queue, and the start
of Python before the attempt begins, do not count.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.cost.from_runs import Stint, stints
from harness.display import Column, aligned, hours, terminal_width, wrapped
from harness.store import RunState, Store, submissions
from harness.store.points import Point
from sweeps.plan.planned import block_of
from sweeps.plan.states import states
from sweeps.spec.resources import Resources
from sweeps.spec.sweep import SweepSpec


@dataclass(frozen=True)
class Hours:
    """Hours of GPUs and of cores."""

    gpu: float = 0.0
    core: float = 0.0

    def __str__(self) -> str:
        gpu = f"{hours(self.gpu)} GPU-hours and " if self.gpu else ""
        return f"{gpu}{hours(self.core)} core-hours"


@dataclass(frozen=True)
class Spent:
    """What runs have taken.

    Attributes:
        runs: those that have begun.
        attempts: at them.
        hours: of all attempts.
        repeated: of these, steps that were made again after a crash.
        failed: of these, attempts that failed, as far as nothing of them was kept.
    """

    runs: int = 0
    attempts: int = 0
    hours: Hours = Hours()
    repeated: Hours = Hours()
    failed: Hours = Hours()

    @classmethod
    def sum(cls, parts: Sequence[Spent]) -> Spent:
        """What all of the parts have taken; ten thousand are added up quickly."""
        return cls(
            sum(one.runs for one in parts),
            sum(one.attempts for one in parts),
            _sum([one.hours for one in parts]),
            _sum([one.repeated for one in parts]),
            _sum([one.failed for one in parts]),
        )

    def to_json(self) -> dict[str, Any]:
        """In plain values."""
        parts = {"": self.hours, "repeated_": self.repeated, "failed_": self.failed}
        found = {f"{name}gpu_hours": part.gpu for name, part in parts.items()}
        found |= {f"{name}core_hours": part.core for name, part in parts.items()}
        return {"runs": self.runs, "attempts": self.attempts} | found

    def __str__(self) -> str:
        parts = {"made again after crashes": self.repeated, "in attempts that failed": self.failed}
        lost = [f"{part} {what}" for what, part in parts.items() if part.core or part.gpu]
        return f"{self.hours} spent" + (f", of these {', '.join(lost)}" if lost else "")


def _sum(hours: Sequence[Hours]) -> Hours:
    return Hours(sum(one.gpu for one in hours), sum(one.core for one in hours))


class Bill:
    """Adds up what the runs of a sweep have taken; a run that two blocks want counts for the first.

    Args:
        store: the store.
        spec: the sweep.
    """

    def __init__(self, store: Store, spec: SweepSpec) -> None:
        self._store, self._spec = store, spec
        self._seen: set[str] = set()

    def of(self, points: Sequence[Point], found: Mapping[str, RunState]) -> Spent:
        """What the runs of these points have taken, but for those that were asked for before."""
        new: dict[str, Point] = {}
        for point in points:
            if point.key and point.key not in self._seen:
                new.setdefault(point.key, point)
        self._seen.update(new)
        return Spent.sum([self._run(point, found[point.id]) for point in new.values()])

    def _run(self, point: Point, state: RunState) -> Spent:
        own = [self._attempt(one, point, state) for one in stints(self._store, point.key, state)]
        return replace(Spent.sum(own), runs=1) if own else Spent()

    def _attempt(self, one: Stint, point: Point, state: RunState) -> Spent:
        whole = self._hours(one, one.seconds, point, state)
        lost = self._hours(one, one.lost, point, state) if one.lost else Hours()
        failed, repeated = (lost, Hours()) if one.failed else (Hours(), lost)
        return Spent(attempts=1, hours=whole, repeated=repeated, failed=failed)

    def _hours(self, one: Stint, seconds: float, point: Point, state: RunState) -> Hours:
        gpus, cores = self._processors(one, point, state)
        return Hours(gpus * seconds / 3600, cores * seconds / 3600)

    def _processors(self, one: Stint, point: Point, state: RunState) -> tuple[float, int]:
        """The GPUs and the cores of an attempt: those of its job, else those that its processes use.

        In a job with several runs each has its share; runs that share a GPU have a part of it.
        """
        seen = state.record is not None and state.record.environment.get("device") == "cuda"
        used = point.processes * (seen or point.overrides.get("device") == "cuda")
        job = self._points.get(point.id, "") if one.job is None else one.job.partition("_")[0]
        if not job:
            return used, point.processes * int(point.overrides.get("threads") or 1)
        wants = self._jobs.get(job) or block_of(self._spec, point).resources
        cores = wants.cpus_per_task * point.processes
        if wants.runs_per_job > 1 and wants.gpus_per_node:
            return point.processes / wants.runs_per_gpu, cores
        # Lines like `#SBATCH --gres` in `setup` ask for GPUs, too.
        return max(used, wants.nodes * wants.gpus_per_node), cores

    @functools.cached_property
    def _submissions(self) -> list[submissions.Submission]:
        return [one for one in submissions.read_all(self._store.root) if one.job]

    @functools.cached_property
    def _points(self) -> dict[str, str]:
        """The last job of each point of any sweep."""
        return {point: one.job for one in self._submissions for point in one.points}

    @functools.cached_property
    def _jobs(self) -> dict[str, Resources]:
        """What each job asked for, as noted when it was submitted."""
        return {one.job: _noted(one.resources) for one in self._submissions if one.resources}


def blocks(store: Store, spec: SweepSpec, points: Sequence[Point]) -> dict[str, Spent]:
    """What the runs of each block have taken.

    Args:
        store: the store.
        spec: the sweep.
        points: its points as planned.
    """
    bill, found = Bill(store, spec), states(store, points)
    names = dict.fromkeys(point.block for point in points)
    return {name: bill.of([one for one in points if one.block == name], found) for name in names}


def to_json(sweep: str, blocks: Mapping[str, Spent]) -> dict[str, Any]:
    """The blocks of a sweep and their sum in plain values."""
    rows = [{"block": name, **one.to_json()} for name, one in blocks.items()]
    return {"sweep": sweep, **Spent.sum([*blocks.values()]).to_json(), "blocks": rows}


def _noted(asked: Mapping[str, Any]) -> Resources:
    """Resources by `Resources.asked`, as far as they are GPUs and cores."""
    names = ("nodes", "gpus_per_node", "cpus_per_task", "runs_per_job", "runs_per_gpu")
    numbers: dict[str, Any] = {n: v for n, v in asked.items() if n in names and type(v) is int and v > 0}
    return Resources(**numbers)


# --- on the screen ---

_COLUMNS = {
    "block": Column(words=True, least=8, rank=0),
    "repeated": Column(rank=2),
    "failed": Column(rank=2),
    "attempts": Column(rank=3),
    "runs": Column(rank=4),
}


def show(sweep: str, blocks: Mapping[str, Spent]) -> None:
    """Print a table of the blocks of a sweep, and the sum of all."""
    total = Spent.sum([*blocks.values()])
    unit = "gpu" if total.hours.gpu else "core"
    gpu = ["GPU-hours"] if total.hours.gpu else []
    rows: list[list[object]] = [["block", "runs", "attempts", *gpu, "core-hours", "repeated", "failed"]]
    rows += [_row(name, one, unit) for name, one in blocks.items()]
    lines = [*aligned(rows, _COLUMNS, terminal_width()).splitlines(), f"{sweep}: {total}"]
    print("\n".join(part for line in lines for part in wrapped(line, terminal_width())))


def _row(name: str, one: Spent, unit: str) -> list[object]:
    gpu = [hours(one.hours.gpu)] if unit == "gpu" else []
    lost = [hours(getattr(part, unit)) for part in (one.repeated, one.failed)]
    return [name, one.runs, one.attempts, *gpu, hours(one.hours.core), *lost]
