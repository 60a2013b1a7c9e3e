"""`submit --dry-run`: what `sbatch` would get to read."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from harness.store import Store
from harness.store.owner import current_user
from harness.system import slurm
from harness.system.squeue import Job
from sweeps.cluster import job_name, snapshot, submissions, submit, troubles
from sweeps.cluster.submissions import Submission
from sweeps.plan.planned import Planned
from sweeps.plan.states import states
from sweeps.spec.sweep import SweepSpec


def scripts(
    store: Store,
    spec: SweepSpec,
    planned: Sequence[Planned],
    *,
    replace: bool = False,
    exclude_failing: bool = False,
    block: str = "",
) -> list[str]:
    """The scripts of all arrays that `submit` would submit; without SLURM the queue counts as empty."""
    largest, jobs = submit.USUAL_ARRAY_SIZE, dict[str, Job]()
    with contextlib.suppress(slurm.SlurmError):
        largest, jobs = submit.max_array_size(), slurm.queue()
    taken = submissions.queued(submissions.read_all(store.root), jobs)
    points = [one.point for one in planned]
    known = states(store, points)
    wrong = troubles.look(store, spec, points, known, jobs, exclude_failing)
    for one in wrong.outdated if replace else ():
        for point in one.points:
            taken.pop(point, None)
    _, todo = submit.select_pending(store, submit.of_block(planned, block), taken, retry=False, known=known)
    code = snapshot.version(store.root, [one.config for one in planned])
    ours = sum(job.user == current_user() for job in jobs.values())
    return [
        _script(store, code, spec, dataclasses.replace(a, resources=a.resources.keeping_off(wrong.avoid)))
        for a in submit.apply_submit_limit(submit.group_into_arrays(spec, todo, largest), ours)
    ]


def _script(store: Store, code: snapshot.Snapshot, spec: SweepSpec, array: submit.Array) -> str:
    from sweeps.cluster import job_array, order

    one = _as_submitted(spec, array)
    told = order.digest(order.content(one, array.points))
    return job_array.text(store.root, code, one, array.resources, array.processes, told)


def _as_submitted(spec: SweepSpec, array: submit.Array) -> Submission:
    points = tuple(point.id for point in array.points)
    label, share = job_name.of_blocks(array.points), array.resources.runs_per_job
    return Submission(spec.name, "0123456789", points, label=label, runs_per_job=share)
