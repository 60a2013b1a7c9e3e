"""`sweep reap`: clear away at once what dead processes and jobs have left.

A sweep goes on without it: each claim of a run, each trial and each submission clears away a part. Whether
the owner of a run lives is not stored but judged each time, so that no stored state can be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.display import counted
from harness.store import Kind, RunState, Store
from harness.store.owner import STALE_SECONDS, current_user, seconds_since_touched
from harness.store.points import Point, submitting
from harness.system import atomic, slurm
from harness.system.folders import make_folder
from harness.system.slurm import SlurmError
from harness.system.squeue import Job
from sweeps.cluster import stale, submissions, submit
from sweeps.plan.planned import Planned
from sweeps.plan.states import settled, states
from sweeps.plan.stored import write_plan
from sweeps.spec.sweep import SweepSpec


@dataclass
class Reaped:
    """What was found and done.

    Attributes:
        abandoned: runs of dead processes, which wait for the next `run` or `submit`.
        leftovers: temporary files removed.
        studies: Optuna studies brought up to date.
        cancelled: jobs for runs that are settled.
        unwanted: jobs for points that the sweep no longer has.
        mended: arrays in the queue whose submitter died before it stored their id.
        lost: arrays of a dead submitter of which nothing is in the queue.
        silence: why SLURM was not asked or did not answer; empty if it did.
    """

    abandoned: int = 0
    leftovers: int = 0
    studies: int = 0
    cancelled: int = 0
    unwanted: int = 0
    mended: int = 0
    lost: int = 0
    silence: str = ""

    def lines(self) -> list[str]:
        """A line for each count above 0."""
        array = ("array of a killed submitter", "arrays of killed submitters")
        counts = (
            (
                self.abandoned,
                "run of a dead process waits",
                "runs of dead processes wait",
                "for the next `run` or `submit`",
            ),
            (self.leftovers, "temporary file", "temporary files", "removed"),
            (self.studies, "study", "studies", "brought up to date"),
            (self.cancelled, "job of settled runs", "jobs of settled runs", "cancelled"),
            (self.unwanted, "job", "jobs", "of points that the sweep no longer has cancelled"),
            (self.mended, *array, "found in the queue and noted"),
            (self.lost, *array, "never reached the queue, or left it"),
        )
        lines = [f"{counted(n, one, many)} {rest}" for n, one, many, rest in counts if n]
        return lines + ([f"the queue is left out: {self.silence}"] if self.silence else [])


def reap(store: Store, spec: SweepSpec, planned: Sequence[Planned], *, replace: bool = False) -> Reaped:
    """Tidy up a sweep.

    Args:
        store: the store.
        spec: the sweep.
        planned: its points.
        replace: let the file replace the stored plan, also where it lacks points of it.

    Raises:
        UsageError: it lacks some, and is not to.
    """
    from sweeps.studies import refresh

    done = Reaped()
    make_folder(store.root)
    write_plan(store.root, spec, planned, replace=replace)
    points = [one.point for one in planned]
    found = states(store, points)
    done.abandoned = sum(_abandoned(store, point, found[point.id]) for point in points)
    done.leftovers = sum(
        _remove_temporaries(store, point)
        for point in points
        if point.key and found[point.id].kind is not Kind.LIVE  # an empty slot has no run yet
    )
    done.studies = len(refresh.refresh(store, spec, planned))
    if submissions.read(store.root, spec.name):
        try:
            _tidy_queue(store, spec, points, done)
        except SlurmError as error:
            done.silence = str(error)
    return done


def _abandoned(store: Store, point: Point, state: RunState) -> bool:
    """Whether the last attempt at a waiting run ended without an outcome."""
    if state.kind is not Kind.WAITING or not state.attempts:
        return False
    return store.attempt(point.key, state.attempts).get("outcome") is None


def _remove_temporaries(store: Store, point: Point) -> int:
    """Remove temporary files of killed writers from a run's folder, but no fresh ones: they may be in use."""
    files = store.files(point.key)
    found = [path for place in (files.path, files.attempts) for path in atomic.temporaries(place)]
    old = [path for path in found if seconds_since_touched(path) > STALE_SECONDS]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _tidy_queue(store: Store, spec: SweepSpec, points: Sequence[Point], done: Reaped) -> None:
    with submitting(store.root):  # so no submission is between its intent and its answer
        jobs = slurm.queue()
        done.mended = submit.recover(store.root, jobs)
        for one in submissions.read(store.root, spec.name):
            if not one.job and not one.refused:
                submissions.answer(
                    store.root, one, refused="its submitter died, and nothing of it is in the queue"
                )
                done.lost += 1
        own = submissions.read(store.root, spec.name)
        taken = submissions.queued(own, jobs)
        wanted = {point.id for point in points}
        unwanted = [one.job for one in stale.removed(store.root, spec.name, own, jobs, wanted)]
        found = states(store, [point for point in points if point.id in taken])
        left = {name for name, state in found.items() if not settled(state)}
        left |= stale.wanted_by_others(store.root, spec.name) - wanted
        queue = submissions.in_queue(own, jobs)
        idle = [job for _, ids, job in queue if left.isdisjoint(ids) and not wanted.isdisjoint(ids)]
        done.cancelled, done.unwanted = _cancel(idle, jobs), _cancel(unwanted, jobs)


def _cancel(found: Sequence[Job], jobs: Mapping[str, Job]) -> int:
    """Cancel those of our jobs that wait; their number."""
    ours = [job for job in found if job.pending and job.user == current_user()]
    if ours:
        submissions.cancel_pending(ours, jobs)
    return len(ours)
