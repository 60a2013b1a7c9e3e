"""A line of `sweep status`: the GPU- and core-hours that a sweep has taken so far.

An attempt counts with what its job asked for, from its begin to its end; the wait in the queue, and the start
of Python before the attempt begins, do not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from htbench.harness.cost.from_runs import stints
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


def sum_hours(
    store: Store, spec: SweepSpec, blocks: Mapping[str, Sequence[Point]], run_states: Mapping[str, RunState]
) -> dict[str, Spent]:
    """The hours that the runs of each block have taken; a run that two blocks want counts for the first.

    Args:
        store: the store.
        spec: the sweep.
        blocks: the points of each block, by its name.
        run_states: the states of the points, by their ids.
    """
    arrays = [array for array in submissions.read_all(store.root) if array.job]
    requests = {array.job: array.resources for array in arrays}
    last_jobs = {id: array.job for array in arrays for id in array.points}
    counted, hours = set[str](), dict[str, Spent]()
    for block, points in blocks.items():
        gpu_hours = core_hours = 0.0
        for point in points:
            if not point.key or point.key in counted:
                continue
            counted.add(point.key)
            for stint in stints(store, point.key, run_states[point.id]):
                job = last_jobs.get(point.id, "") if stint.job is None else stint.job.partition("_")[0]
                resources = block_of(spec, point).resources
                request = (requests.get(job) or resources.asked()) if job else None
                gpus, cores = _count_processors(point, run_states[point.id], resources, request)
                gpu_hours += gpus * stint.seconds / 3600
                core_hours += cores * stint.seconds / 3600
        hours[block] = Spent(gpu_hours, core_hours)
    return hours


def _count_processors(
    point: Point, state: RunState, resources: Resources, request: Mapping[str, Any] | None
) -> tuple[float, int]:
    """The GPUs and the cores of an attempt: those that its job asked for, else those that its processes use.

    Runs that share a GPU have a part of it.
    """
    was_on_gpu = state.record is not None and state.record.environment.get("device") == "cuda"
    gpus = point.processes * (was_on_gpu or point.overrides.get("device") == "cuda")
    if request is None:
        threads = int(point.overrides.get("threads") or 1)
        return gpus / resources.on_a_gpu(point.processes), threads * point.processes
    nodes, gpus_per_node, cpus = (
        value if type(value := request.get(name)) is int and value > 0 else int(getattr(Resources, name))
        for name in ("nodes", "gpus_per_node", "cpus_per_task")
    )
    return max(gpus, nodes * gpus_per_node), cpus * point.processes  # options like `gres` ask for GPUs, too
