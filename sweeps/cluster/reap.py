"""`sweep reap`: clear away at once what dead processes and jobs have left.

A sweep goes on without it: each claim of a run, each trial and each submission clears away a part. Whether
the owner of a run lives is not stored but judged each time, so that no stored state can be wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.show.note import Note
from harness.show.status import Status
from harness.store import Store, submissions
from harness.store.owner import STALE_SECONDS, seconds_since_touched
from harness.store.points import Point, submitting
from harness.system import atomic, slurm
from harness.system.folders import make_folder
from harness.system.slurm import SlurmError
from sweeps.cluster import queue, troubles
from sweeps.plan.planned import Planned, states
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

    def notes(self, sweep: str) -> list[Note]:
        """A note for each count above 0, and one on a silent SLURM."""
        counts = {
            "reaped_abandoned": self.abandoned,
            "reaped_leftovers": self.leftovers,
            "reaped_studies": self.studies,
            "reaped_cancelled": self.cancelled,
            "reaped_unwanted": self.unwanted,
            "reaped_mended": self.mended,
            "reaped_lost": self.lost,
        }
        silent = [Note("reaped_without_queue", sweep=sweep, why=self.silence)] if self.silence else []
        return [Note(kind, sweep=sweep, n=n) for kind, n in counts.items() if n] + silent


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
    known = states(store, points)
    stopped = [p for p in points if known[p.id].status is Status.WAITING and known[p.id].attempts]
    ended = [store.attempt(point.key, known[point.id].attempts).get("outcome") for point in stopped]
    done.abandoned = ended.count(None)
    done.leftovers = sum(
        _remove_temporaries(store, point)
        for point in points
        if point.key and known[point.id].status is not Status.RUNNING  # an empty slot has no run yet
    )
    done.studies = len(refresh.refresh(store, spec, planned))
    if submissions.read(store.root, spec.name):
        try:
            _tidy_queue(store, spec, points, done)
        except SlurmError as error:
            done.silence = str(error)
    return done


def _remove_temporaries(store: Store, point: Point) -> int:
    """Remove temporary files of killed writers from a run's folder, but no fresh ones: they may be in use."""
    files = store.files(point.key)
    paths = [path for place in (files.path, files.attempts) for path in atomic.temporaries(place)]
    old = [path for path in paths if seconds_since_touched(path) > STALE_SECONDS]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _tidy_queue(store: Store, spec: SweepSpec, points: Sequence[Point], done: Reaped) -> None:
    root, name = store.root, spec.name
    with submitting(root):  # so no submission is between its intent and its answer
        jobs = slurm.queue()
        done.mended = queue.recover(root, jobs)
        for one in submissions.read(root, name):
            if not one.job and not one.refused:
                submissions.answer(root, one, refused="its submitter died, and nothing of it is in the queue")
                done.lost += 1
        arrays = submissions.read(root, name)
        taken = queue.queued(arrays, jobs)
        wanted = {point.id for point in points}
        unwanted = [jobs[one.job] for one in troubles.removed(root, name, arrays, jobs, wanted)]
        known = states(store, [point for point in points if point.id in taken])
        left = {id for id, state in known.items() if not state.status.is_settled}
        left |= {point.id for own in troubles.of_others(root, name).values() for point in own} - wanted
        shares = list(queue.in_queue(arrays, jobs))
        idle = [job for _, ids, job in shares if left.isdisjoint(ids) and not wanted.isdisjoint(ids)]
        done.cancelled = queue.cancel_pending(idle, jobs)
        done.unwanted = queue.cancel_pending(unwanted, jobs)
