"""A line of `sweep status`: the GPU- and core-hours that a sweep has taken so far.

An attempt counts with what its job asked for, from its begin to its end; the wait in the queue, and the start
of Python before the attempt begins, do not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from htbench.harness.cost.from_runs import Stint, stints
from htbench.harness.store import RunState, Store, submissions
from htbench.harness.store.points import Point
from htbench.sweeps.plan.planned import block_of
from htbench.sweeps.spec.resources import Resources
from htbench.sweeps.spec.sweep import SweepSpec


@dataclass(frozen=True)
class Spent:
    """What attempts have taken.

    Attributes:
        gpu_hours, core_hours: of all of them.
    """

    gpu_hours: float = 0.0
    core_hours: float = 0.0


class Bill:
    """Adds up what the runs of a sweep have taken; a run that two blocks want counts for the first.

    Args:
        store: the store.
        spec: the sweep.
    """

    def __init__(self, store: Store, spec: SweepSpec) -> None:
        self._store, self._spec = store, spec
        self._counted: set[str] = set()
        arrays = [array for array in submissions.read_all(store.root) if array.job]
        self._asked = {array.job: array.resources for array in arrays}
        self._jobs = {id: array.job for array in arrays for id in array.points}  # the last one of each point

    def of(self, points: Sequence[Point], known: Mapping[str, RunState]) -> Spent:
        """What the runs of these points have taken, but for those that were counted before."""
        gpu_hours = core_hours = 0.0
        for point in points:
            if not point.key or point.key in self._counted:
                continue
            self._counted.add(point.key)
            state = known[point.id]
            for stint in stints(self._store, point.key, state):
                gpus, cores = self._processors(stint, point, state)
                gpu_hours += gpus * stint.seconds / 3600
                core_hours += cores * stint.seconds / 3600
        return Spent(gpu_hours, core_hours)

    def _processors(self, stint: Stint, point: Point, state: RunState) -> tuple[float, int]:
        """The GPUs and the cores of an attempt: those of its job, else those that its processes use.

        Runs that share a GPU have a part of it.
        """
        seen = state.record is not None and state.record.environment.get("device") == "cuda"
        used = point.processes * (seen or point.overrides.get("device") == "cuda")
        resources = block_of(self._spec, point).resources
        job = self._jobs.get(point.id, "") if stint.job is None else stint.job.partition("_")[0]
        if not job:
            cores = point.processes * int(point.overrides.get("threads") or 1)
            return used / resources.on_a_gpu(point.processes), cores
        asked = self._asked.get(job) or resources.asked()
        # Options like `gres` ask for GPUs, too.
        gpus = max(used, _number(asked, "nodes") * _number(asked, "gpus_per_node"))
        return gpus, _number(asked, "cpus_per_task") * point.processes


def _number(asked: Mapping[str, Any], name: str) -> int:
    """What a job asked for by a key of the resources, as far as that is a number."""
    value = asked.get(name)
    return value if type(value) is int and value > 0 else int(getattr(Resources, name))
