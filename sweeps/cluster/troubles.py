"""Jobs that went wrong or are no longer wanted, for `status` and `submit`."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store, submissions
from htbench.harness.store.owner import current_user
from htbench.harness.store.points import Point, read_points, sweep_names
from htbench.harness.system import slurm
from htbench.harness.system.squeue import Job
from htbench.sweeps.cluster import early_ends, queue
from htbench.sweeps.cluster.early_ends import Early
from htbench.sweeps.plan.planned import block_of
from htbench.sweeps.spec.sweep import SweepSpec


@dataclass(frozen=True)
class Troubles:
    """What is wrong with the jobs of a sweep.

    Attributes:
        removed: jobs in the queue for points that the sweep no longer has.
        outdated: this user's jobs that wait and ask for other resources than the file.
        ended_early: jobs that ended before their run began; their points wait, without a later job.
    """

    removed: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    ended_early: list[Early] = field(default_factory=list)

    def make_notes(self, sweep: str, cancelled: int | None = None) -> list[Note]:
        """For people; `cancelled`: how many removed jobs the command has cancelled; None: it cancels none."""
        jobs, command = len(self.removed), "submit" if cancelled is None else ""
        unwanted = Note("jobs_unwanted", sweep=sweep, jobs=jobs, cancelled=cancelled, command=command)
        return [
            *early_ends.make_notes(sweep, self.ended_early),
            *([unwanted] if jobs else []),
            *([Note("jobs_outdated", sweep=sweep, jobs=len(self.outdated))] if self.outdated else []),
        ]


def find_troubles(
    store: Store,
    spec: SweepSpec,
    points: Sequence[Point],
    run_states: Mapping[str, RunState],
    jobs: Mapping[str, Job] | None = None,
) -> Troubles:
    """Collect the troubles of a sweep; none without a submission or an answer of SLURM.

    Args:
        store: the store.
        spec: the sweep.
        points: its points.
        run_states: their states, by their ids.
        jobs: the queue, read before the states; None: as of at most half a minute ago.
    """
    arrays = submissions.read(store.root, spec.name)
    jobs = slurm.recent_queue() if arrays and jobs is None else jobs
    if not arrays or jobs is None:
        return Troubles()
    matched = list(queue.match_jobs(arrays, jobs))
    by_id = {point.id: point for point in points}
    waiting = {id for id, state in run_states.items() if state.status is Status.WAITING}
    free = waiting - {id for _, id, _ in matched}
    outdated = [
        job.id
        for array, id, job in matched
        if id in by_id and array.resources and job.pending and job.user == current_user()
        if {**array.resources} != block_of(spec, by_id[id]).resources.asked(by_id[id].processes)
    ]
    rest = {job.id: id for _, id, job in matched if id not in by_id}
    wanted = set[str]()  # by other sweeps
    for name in sweep_names(store.root) if rest else ():
        with contextlib.suppress(UsageError):  # a damaged plan is an error where it is needed
            wanted |= {point.id for point in read_points(store.root, name)} if name != spec.name else set()
    removed = [job for job, id in rest.items() if id not in wanted]
    return Troubles(removed, outdated, early_ends.find_early_ends(store, arrays, points, free))
