"""A line of `sweep status`: the GPU- and core-hours that a sweep has taken so far.

An attempt counts with what its job asked for, from its begin to its end; the wait in the queue, and the start
of Python before the attempt begins, do not count.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from htbench.harness.cost.from_runs import Stint, stints
from htbench.harness.show.note import Note
from htbench.harness.store import RunState, Store, submissions
from htbench.harness.store.points import Point
from htbench.sweeps.plan.planned import block_of, states
from htbench.sweeps.spec.resources import Resources
from htbench.sweeps.spec.sweep import SweepSpec


@dataclass(frozen=True)
class Spent:
    """What runs have taken, in hours of GPUs and of cores.

    Attributes:
        runs: those that have begun.
        attempts: at them.
        gpu_hours, core_hours: of all attempts.
        repeated_gpu_hours, repeated_core_hours: of these, in steps that were made again after a crash.
        failed_gpu_hours, failed_core_hours: of these, in attempts that failed, as far as nothing of them was
            kept.
    """

    runs: int = 0
    attempts: int = 0
    gpu_hours: float = 0.0
    core_hours: float = 0.0
    repeated_gpu_hours: float = 0.0
    repeated_core_hours: float = 0.0
    failed_gpu_hours: float = 0.0
    failed_core_hours: float = 0.0

    @classmethod
    def sum(cls, parts: Sequence[Spent]) -> Spent:
        """What all of the parts have taken; ten thousand are added up quickly."""
        return cls(**{f.name: sum(getattr(part, f.name) for part in parts) for f in fields(cls)})

    def words(self) -> Note:
        """The time of processors, in words."""
        repeated = _time(self.repeated_gpu_hours, self.repeated_core_hours)
        failed = _time(self.failed_gpu_hours, self.failed_core_hours)
        whole = Note("time_spent", gpu=self.gpu_hours, core=self.core_hours)
        return Note("spent", time=whole, repeated=repeated, failed=failed)


def _time(gpu: float, core: float) -> Note | None:
    return Note("time_spent", gpu=gpu, core=core) if gpu or core else None


class Bill:
    """Adds up what the runs of a sweep have taken; a run that two blocks want counts for the first.

    Args:
        store: the store.
        spec: the sweep.
    """

    def __init__(self, store: Store, spec: SweepSpec) -> None:
        self._store, self._spec = store, spec
        self._seen: set[str] = set()

    def of(self, points: Sequence[Point], known: Mapping[str, RunState]) -> Spent:
        """What the runs of these points have taken, but for those that were asked for before."""
        new: dict[str, Point] = {}
        for point in points:
            if point.key and point.key not in self._seen:
                new.setdefault(point.key, point)
        self._seen.update(new)
        taken, runs = list[Spent](), 0
        for point in new.values():
            state = known[point.id]
            attempts = [self._attempt(stint, point, state) for stint in stints(self._store, point.key, state)]
            taken += attempts
            runs += bool(attempts)
        return replace(Spent.sum(taken), runs=runs)

    def _attempt(self, stint: Stint, point: Point, state: RunState) -> Spent:
        gpus, cores = self._processors(stint, point, state)
        whole, lost = stint.seconds / 3600, stint.lost / 3600
        spent = Spent(attempts=1, gpu_hours=gpus * whole, core_hours=cores * whole)
        if stint.failed:
            return replace(spent, failed_gpu_hours=gpus * lost, failed_core_hours=cores * lost)
        return replace(spent, repeated_gpu_hours=gpus * lost, repeated_core_hours=cores * lost)

    def _processors(self, stint: Stint, point: Point, state: RunState) -> tuple[float, int]:
        """The GPUs and the cores of an attempt: those of its job, else those that its processes use.

        Runs that share a GPU have a part of it.
        """
        seen = state.record is not None and state.record.environment.get("device") == "cuda"
        used = point.processes * (seen or point.overrides.get("device") == "cuda")
        job = self._points.get(point.id, "") if stint.job is None else stint.job.partition("_")[0]
        of_file = block_of(self._spec, point).resources
        if not job:
            cores = point.processes * int(point.overrides.get("threads") or 1)
            return used / of_file.on_a_gpu(point.processes), cores
        wants = self._jobs.get(job) or of_file
        # Options like `gres` ask for GPUs, too.
        return max(used, wants.nodes * wants.gpus_per_node), wants.cpus_per_task * point.processes

    @functools.cached_property
    def _submissions(self) -> list[submissions.Submission]:
        return [array for array in submissions.read_all(self._store.root) if array.job]

    @functools.cached_property
    def _points(self) -> dict[str, str]:
        """The last job of each point of any sweep."""
        return {point: array.job for array in self._submissions for point in array.points}

    @functools.cached_property
    def _jobs(self) -> dict[str, Resources]:
        """The GPUs and cores that each job asked for, as noted when it was submitted."""
        names = ("nodes", "gpus_per_node", "cpus_per_task")
        asked: dict[str, Resources] = {}
        for array in self._submissions:
            numbers = {n: v for n, v in array.resources.items() if n in names}
            sound: dict[str, Any] = {n: v for n, v in numbers.items() if type(v) is int and v > 0}
            asked |= {array.job: Resources(**sound)} if array.resources else {}
        return asked


def blocks(store: Store, spec: SweepSpec, points: Sequence[Point]) -> dict[str, Spent]:
    """What the runs of each block have taken.

    Args:
        store: the store.
        spec: the sweep.
        points: its points as planned.
    """
    bill, known = Bill(store, spec), states(store, points)
    names = dict.fromkeys(point.block for point in points)
    return {name: bill.of([point for point in points if point.block == name], known) for name in names}
