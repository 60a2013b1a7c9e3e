"""`htbench sweep submit`: which runs need a job, in which arrays, and what SLURM answers.

One process at a time submits to a store, under a lock. If it dies, the next one finds in the queue what was
submitted and not stored. A job for a run that is finished or at work elsewhere ends at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.display import counted
from harness.errors import UsageError
from harness.store import Kind, Reason, RunState, Store
from harness.store.owner import Owner, current_user
from harness.store.points import Point, submitting
from harness.system import atomic, slurm
from harness.system.folders import make_folder
from harness.system.squeue import Job
from sweeps.cluster import exchange, job_name, snapshot, stale, submissions, troubles
from sweeps.cluster.sbatch import RefusedError, UnsureError
from sweeps.cluster.snapshot import Snapshot
from sweeps.cluster.stale import Outdated
from sweeps.cluster.submissions import Submission
from sweeps.cluster.troubles import Troubles
from sweeps.plan.planned import Planned, block_of
from sweeps.plan.states import states
from sweeps.plan.stored import write_plan
from sweeps.spec.resources import Resources
from sweeps.spec.sweep import SweepSpec

USUAL_ARRAY_SIZE = 1001  # SLURM's default; for a dry run without SLURM
# SLURM gives the same message for every limit, also for the size of one job. A word before it,
# such as AssocMaxSubmitJobLimit, names the limit.
_NAMED = re.compile(r"\b(Assoc|QOS)(Max|Min|Grp)\w+")
_LIMIT = re.compile(r"(Max|Grp)\w*(Submit|Jobs)|job submit limit|job array size", re.IGNORECASE)


@dataclass(frozen=True)
class Array:
    """Points of one resource class that are submitted together; their runs have equally many processes."""

    resources: Resources
    points: tuple[Point, ...]
    processes: int = 1

    @property
    def jobs(self) -> int:
        """The number of its jobs."""
        return -(-len(self.points) // self.resources.runs_per_job)

    def part(self, jobs: int) -> Array:
        """So many of its first jobs."""
        return replace(self, points=self.points[: jobs * self.resources.runs_per_job])


@dataclass
class Report:
    """The result of a submission, by what each point needed.

    Attributes:
        finished: points with a record.
        queued: points with a job already.
        live: points at work on some machine, without a job in the queue.
        ending: points submitted while the job before theirs is ending; the new one waits for it.
        failed: point -> reason; not submitted unless asked for.
        arrays: what was submitted, each with its resources in words.
        left: points that a limit leaves to the next call.
        refusal: SLURM's message about the limit; empty without one.
        troubles: what was wrong with jobs before.
        exchanged: jobs that were cancelled to be submitted with what the file says now.
        left_to: other sweeps that want points of these which the file has lost -> how many.
    """

    finished: int = 0
    queued: int = 0
    live: int = 0
    ending: int = 0
    failed: dict[str, Reason] = field(default_factory=dict)
    arrays: list[tuple[Submission, str]] = field(default_factory=list)
    left: int = 0
    refusal: str = ""
    troubles: Troubles = field(default_factory=lambda: Troubles(""))
    exchanged: list[Outdated] = field(default_factory=list)
    left_to: dict[str, int] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to wait for."""
        return not (self.submitted or self.queued or self.live or self.left)

    @property
    def submitted(self) -> int:
        """The number of points submitted."""
        return sum(len(submission.points) for submission, _ in self.arrays)


def check(root: Path, spec: SweepSpec) -> None:
    """Refuse names that jobs of a sweep can't have.

    Args:
        root: the store.
        spec: the sweep.

    Raises:
        UsageError: one sentence.
    """
    size = len(spec.name.encode())
    if size > job_name.LONGEST_SWEEP:
        raise UsageError(
            f"The name of the sweep '{spec.name}' has {size} bytes, and the names of jobs, by which they are "
            f"found, have room for {job_name.LONGEST_SWEEP}; give it a shorter one."
        )
    place = str(root.resolve())
    if any(block.resources.container for block in spec.blocks) and re.search("[,:]", place):
        raise UsageError(
            f"The store '{place}' has a comma or a colon in its path, at which apptainer would cut it; jobs "
            f"with a container need a store without them."
        )


# --- what to submit ---


def select_pending(
    store: Store,
    planned: Sequence[Planned],
    taken: Mapping[str, Job],
    retry: bool,
    ending: Collection[str] = (),
    known: Mapping[str, RunState] = MappingProxyType({}),
) -> tuple[Report, list[Point]]:
    """Select the points that need a job.

    Args:
        store: where the runs are.
        planned: the sweep's points.
        taken: points with a job in the queue. The queue is read before the states: a job that ends in between
            leaves a record.
        retry: whether failed runs need one.
        ending: jobs that were cancelled and still save; what they are at needs a new one.
        known: the states; empty: they are read.
    """
    report, todo = Report(), []
    known = known or states(store, [one.point for one in planned])
    for one in planned:
        name, found = one.point.id, known[one.point.id]
        if found.kind is Kind.FINISHED:
            report.finished += 1
        elif name in taken:
            report.queued += 1
        elif found.kind is Kind.LIVE and not _is_of(found.owner, ending):
            report.live += 1
        elif found.kind is Kind.FAILED and not (retry and store.reset_failure(one.point.key)):
            report.failed[name] = found.reason or Reason.ERROR
        else:
            report.ending += found.kind is Kind.LIVE
            todo.append(one.point)
    return report, todo


def _is_of(owner: Owner | None, jobs: Collection[str]) -> bool:
    """Whether an owner is part of one of these jobs of this cluster."""
    return owner is not None and owner.job in jobs and owner.cluster == slurm.cluster()


def group_into_arrays(spec: SweepSpec, points: Sequence[Point], largest: int) -> list[Array]:
    """The points as arrays: one resource class each, in the order of the plan, at most `largest` tasks.

    A job with several runs has those of one block only, so that a block's jobs can be cancelled alone.
    """
    classes: dict[tuple[Resources, int, str], list[Point]] = {}
    for point in {point.id: point for point in points}.values():  # two blocks may want the same run
        wants = block_of(spec, point).resources
        apart = point.block if wants.runs_per_job > 1 else ""
        classes.setdefault((wants, point.processes, apart), []).append(point)
    return [
        Array(resources, tuple(members[first : first + largest * resources.runs_per_job]), processes)
        for (resources, processes, _), members in classes.items()
        for first in range(0, len(members), largest * resources.runs_per_job)
    ]


def apply_submit_limit(arrays: Sequence[Array], queued: int) -> list[Array]:
    """The arrays up to their `submit_limit`; `queued` is the number of our jobs in the queue."""
    kept_arrays = []
    for array in arrays:
        limit = array.resources.submit_limit
        kept = array if limit is None else array.part(max(0, limit - queued))
        queued += kept.jobs
        kept_arrays += [kept] if kept.points else []
    return kept_arrays


def _taken(store: Store, jobs: Mapping[str, Job], failed: Sequence[Point]) -> dict[str, Job]:
    """The points that have a job in the queue: id -> job.

    Args:
        store: where the runs are.
        jobs: the queue.
        failed: points to be tried again. One whose job has yet to look at it is reset for that job.
    """
    taken, keys = {}, {point.id: point.key for point in failed}
    for submission, points, job in submissions.in_queue(submissions.read_all(store.root), jobs):
        again = keys.keys() & points if job.pending or submission.runs_per_job > 1 else set()
        for id in again:
            store.reset_failure(keys[id])
        closed = again and not job.pending and _has_closed(store.root, submission, job)
        taken.update({id: job for id in points if not (closed and id in again)})
    return taken


def _has_closed(root: Path, submission: Submission, job: Job) -> bool:
    """Whether a job with several runs perhaps has looked at them for the last time."""
    from sweeps.cluster import job_array, packed_job

    folder = job_array.log_folder(root, submission)
    atomic.refresh_file_cache(folder)
    return packed_job.closed_path(folder, job.id).exists()


# --- submitting ---


def submit(
    store: Store,
    spec: SweepSpec,
    planned: Sequence[Planned],
    retry: bool = False,
    block: str = "",
    *,
    replace: bool = False,
    exclude_failing: bool = False,
) -> Report:
    """Submit what is neither finished, nor at work, nor in the queue.

    Args:
        store: the store.
        spec: the sweep.
        planned: all of its points.
        retry: failed runs again, too.
        block: the block whose points are submitted; empty: all.
        replace: let the file replace the stored plan, also where it lacks points of it, and exchange jobs
            that wait and ask for other resources.
        exclude_failing: keep off nodes that end jobs early.

    Raises:
        UsageError: the file lacks stored points, or SLURM is missing, does not answer or refuses. Arrays
            submitted before that are stored.
    """
    largest = max_array_size()
    slurm.require("sbatch")
    make_folder(store.root)
    points = [one.point for one in planned]
    with submitting(store.root):
        write_plan(store.root, spec, planned, replace=replace)
        jobs = slurm.queue()
        recover(store.root, jobs)
        known = states(store, points)  # after the queue: a job that ends in between leaves a record
        wrong = troubles.look(store, spec, points, known, jobs, exclude_failing)
        own = {one.point.id for one in of_block(planned, block)}
        old = [one for one in wrong.outdated if not own.isdisjoint(one.points)] if replace else []
        if old:
            exchange.cancel(store.root, spec, points, old, jobs, wrong.avoid)
            jobs, known = slurm.queue(), states(store, points)  # those that have begun meanwhile go on
        wanted = of_block(planned, block)
        failed = [one.point for one in wanted if retry and known[one.point.id].kind is Kind.FAILED]
        taken = _taken(store, jobs, failed)
        known |= states(store, failed)
        ending = slurm.ending(slurm.FRESH)  # of the same answer
        report, todo = select_pending(store, wanted, taken, retry, ending, known)
        report.troubles, report.exchanged = wrong, [one for one in old if one.job.id not in jobs]
        gone = {point for one in report.exchanged for point in one.points} - known.keys()
        report.left_to = stale.left_to_others(store, spec.name, gone - taken.keys())
        ours = sum(job.user == current_user() for job in jobs.values())
        if todo:
            code = snapshot.take(store.root, [one.config for one in planned])
            for array in apply_submit_limit(group_into_arrays(spec, todo, largest), ours):
                if not report.refusal:
                    _send(store.root, code, spec, array, report)
        report.left = len({point.id for point in todo}) - report.submitted
    if report.refusal and not report.submitted and not ours:
        raise UsageError(f"SLURM does not take a single job of '{spec.name}': {report.refusal}.")
    return report


def of_block(planned: Sequence[Planned], block: str) -> Sequence[Planned]:
    """The points of a block; all for an empty name."""
    return [one for one in planned if one.point.block == block] if block else planned


def max_array_size() -> int:
    """The most tasks of an array; 1 where a site allows no arrays. Raises SlurmError."""
    config = slurm.config()
    tasks = re.findall(r"max_array_tasks=(\d+)", config.get("SchedulerParameters", ""))
    return max(1, min(map(int, [config.get("MaxArraySize", USUAL_ARRAY_SIZE), *tasks])))


def recover(root: Path, jobs: Mapping[str, Job]) -> int:
    """Note the numbers of arrays whose submitter was killed before it could.

    Args:
        root: the store, whose submissions the caller has locked.
        jobs: the queue.

    Returns:
        how many there were.
    """
    lost = submissions.unanswered(submissions.read_all(root), jobs)
    for one in lost:
        submissions.answer(root, one, job=one.job)
    return len(lost)


def _send(root: Path, code: Snapshot, spec: SweepSpec, array: Array, report: Report) -> None:
    """Submit an array; if a limit of the site is in the way, as much of it as goes through by halves."""
    from sweeps.cluster import job_array

    names, jobs = [point.id for point in array.points], array.jobs
    asked = array.resources.keeping_off(report.troubles.avoid)
    remarks: dict[str, Any] = {
        "code": code.folder.name,
        "resources": array.resources.asked(array.processes),
    }
    remarks |= {"excluded": ",".join(report.troubles.avoid)} if report.troubles.avoid else {}
    remarks |= {"label": job_name.of_blocks(array.points), "runs_per_job": array.resources.runs_per_job}
    one = submissions.intend(root, spec.name, names, remarks)
    already = f"; {counted(report.submitted, 'run')} had been submitted before" if report.submitted else ""
    try:
        job = job_array.submit(root, code, one, asked, array.points)
    except UnsureError as error:  # without an answer noted, `recover` looks for it in the queue
        raise UsageError(
            f"{counted(jobs, 'job')} of '{spec.name}' may be in the queue ({error}){already}. Give the same "
            f"command again: it finds them there, or submits them anew."
        ) from None
    except RefusedError as error:
        submissions.answer(root, one, refused=str(error))
        if not _is_limit(str(error)):
            raise UsageError(f"SLURM does not take the jobs of '{spec.name}': {error}{already}.") from None
        report.refusal = str(error)
        if jobs > 1:
            _send(root, code, spec, array.part(jobs // 2), report)
        return
    atomic.crash_point("submit.after")
    submissions.answer(root, one, job=job)
    report.arrays.append((replace(one, job=job), asked.describe(array.processes)))


def _is_limit(said: str) -> bool:
    """Whether SLURM would take fewer jobs."""
    named = _NAMED.search(said)
    return _LIMIT.search(named[0] if named else said) is not None
