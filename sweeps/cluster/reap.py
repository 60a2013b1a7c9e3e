"""`sweep reap`: clear away at once what dead processes and jobs left behind.

A sweep goes on without it: each claim of a run, each trial and each submission clears away a part. Whether
the owner of a run lives is not stored but judged each time, so that no stored state can be wrong.
"""

from collections.abc import Sequence

from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import Store, submissions
from htbench.harness.store.owner import STALE_SECONDS, seconds_since_touched
from htbench.harness.store.points import Point, submitting
from htbench.harness.system import atomic, slurm
from htbench.harness.system.folders import make_folder
from htbench.harness.system.slurm import SlurmError
from htbench.sweeps.cluster import queue, troubles
from htbench.sweeps.plan.planned import Planned, states
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec.sweep import SweepSpec

# The counts, in the order in which they are shown.
COUNTS = (
    "reaped_abandoned",  # runs of dead processes, which wait for the next `run` or `submit`
    "reaped_leftovers",  # temporary files removed
    "reaped_studies",  # Optuna studies brought up to date
    "reaped_cancelled",  # jobs for runs that are settled
    "reaped_unwanted",  # jobs for points that the sweep no longer has
    "reaped_mended",  # arrays in the queue whose submitter died before it stored their id
    "reaped_lost",  # arrays of a dead submitter of which nothing is in the queue
)


def reap(store: Store, spec: SweepSpec, planned: Sequence[Planned], *, replace: bool = False) -> list[Note]:
    """Clear away what dead processes and jobs of a sweep left behind.

    Args:
        store: the store.
        spec: the sweep.
        planned: its points.
        replace: let the file replace the stored plan, also where it lacks points of it.

    Returns:
        a note for each count above 0, and one if SLURM does not answer.

    Raises:
        UsageError: the file lacks some points, and is not to replace the plan.
    """
    from htbench.sweeps.studies import refresh

    counts, notes = dict.fromkeys(COUNTS, 0), list[Note]()
    make_folder(store.root)
    write_plan(store.root, spec, planned, replace=replace)
    points = [one.point for one in planned]
    run_states = states(store, points)
    stopped = [p for p in points if run_states[p.id].status is Status.WAITING and run_states[p.id].attempts]
    outcomes = [store.attempt(point.key, run_states[point.id].attempts).get("outcome") for point in stopped]
    counts["reaped_abandoned"] = outcomes.count(None)
    for point in points:
        if point.key and run_states[point.id].status is not Status.RUNNING:  # an empty slot has no run yet
            files = store.files(point.key)
            for path in [
                path for folder in (files.path, files.attempts) for path in atomic.temporaries(folder)
            ]:
                if seconds_since_touched(path) > STALE_SECONDS:  # a fresh one may be in use
                    path.unlink(missing_ok=True)
                    counts["reaped_leftovers"] += 1
    counts["reaped_studies"] = len(refresh.refresh(store, spec, planned))
    if submissions.read(store.root, spec.name):
        try:
            _clear_queue(store, spec, points, counts)
        except SlurmError as error:
            notes = [Note("reaped_without_queue", sweep=spec.name, why=str(error))]
    return [Note(kind, sweep=spec.name, n=n) for kind, n in counts.items() if n] + notes


def _clear_queue(store: Store, spec: SweepSpec, points: Sequence[Point], counts: dict[str, int]) -> None:
    root, name = store.root, spec.name
    with submitting(root):  # so no submission is between its intent and its answer
        jobs = slurm.queue()
        counts["reaped_mended"] = queue.recover_ids(root, jobs)
        for array in submissions.read(root, name):
            if not array.job and not array.refused:
                reason = "its submitter died, and nothing of it is in the queue"
                submissions.answer(root, array, refused=reason)
                counts["reaped_lost"] += 1
        arrays = submissions.read(root, name)
        point_jobs = queue.map_jobs(arrays, jobs)
        ids = {point.id for point in points}
        unwanted = [jobs[id] for id in troubles.find_removed(root, name, arrays, jobs, ids)]
        run_states = states(store, [point for point in points if point.id in point_jobs])
        settled = {id for id, state in run_states.items() if state.status.is_settled}
        idle = [job for _, id, job in queue.match_jobs(arrays, jobs) if id in settled]
        counts["reaped_cancelled"] = queue.cancel_pending(idle)
        counts["reaped_unwanted"] = queue.cancel_pending(unwanted)
