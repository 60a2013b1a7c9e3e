"""`htbench sweep submit`: which runs need a job, in which arrays, and what SLURM answers.

One process at a time submits to a store, under a lock. If it dies, the next one finds in the queue the jobs
that were submitted and not stored. A job for a run that is finished or at work elsewhere ends at once.
"""

import contextlib
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.status import Status
from htbench.harness.store import Reason, RunState, Store, submissions
from htbench.harness.store.owner import current_user
from htbench.harness.store.points import Point, submitting
from htbench.harness.store.submissions import Submission
from htbench.harness.system import atomic, slurm
from htbench.harness.system.folders import make_folder
from htbench.harness.system.squeue import Job
from htbench.sweeps.cluster import queue, sbatch, snapshot, troubles, verify
from htbench.sweeps.cluster.sbatch import RefusedError, UnsureError
from htbench.sweeps.cluster.snapshot import Snapshot
from htbench.sweeps.cluster.troubles import Troubles
from htbench.sweeps.plan.planned import Planned, block_of, states
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec.resources import Resources, words
from htbench.sweeps.spec.search import REFINE
from htbench.sweeps.spec.sweep import SweepSpec

USUAL_ARRAY_SIZE = 1001  # SLURM's default; for a dry run without SLURM
# SLURM gives the same message for every limit, also for the size of one job. A word before it,
# such as AssocMaxSubmitJobLimit, names the limit.
_LIMIT_NAME = re.compile(r"\b(Assoc|QOS)(Max|Min|Grp)\w+")
_LIMIT = re.compile(r"(Max|Grp)\w*(Submit|Jobs)|job submit limit|job array size", re.IGNORECASE)
CHECK = "'...'"  # in place of the text of `verify` on a screen
_NO_WORD = "0123456789"  # in place of the word of a submission


@dataclass(frozen=True)
class SubmitOptions:
    """The options of `submit`.

    Attributes:
        block: the block whose points are submitted; empty: all.
        retry: failed runs again, too.
        replace: let the file replace the stored plan, also where it lacks points of it.
    """

    block: str = ""
    retry: bool = False
    replace: bool = False

    def select(self, planned: Sequence[Planned]) -> Sequence[Planned]:
        """The points of the block."""
        return [p for p in planned if p.point.block == self.block] if self.block else planned


@dataclass(frozen=True)
class Array:
    """Points of one resource class that are submitted together; their runs have equally many processes."""

    resources: Resources
    points: tuple[Point, ...]

    @property
    def processes(self) -> int:
        """Of each run."""
        return self.points[0].processes


@dataclass
class Report:
    """The result of a submission, by what each point needed.

    Attributes:
        finished: points with a record.
        queued: points with a job already.
        live: points at work on some machine, without a job in the queue.
        ending: points submitted while the job before theirs is ending; the new one waits for it.
        failed: point -> reason; not submitted unless asked for.
        arrays: the submitted ones, each with what its jobs ask for.
        left: points that a limit leaves to the next call.
        refusal: SLURM's message about the limit; empty without one.
        troubles: what was wrong with jobs before.
        cancelled: how many of the jobs for removed points.
    """

    finished: int = 0
    queued: int = 0
    live: int = 0
    ending: int = 0
    failed: dict[str, Reason | None] = field(default_factory=dict)
    arrays: list[tuple[Submission, Mapping[str, Any]]] = field(default_factory=list)
    left: int = 0
    refusal: str = ""
    troubles: Troubles = field(default_factory=Troubles)
    cancelled: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing is left to wait for."""
        return not (self.submitted or self.queued or self.live or self.left)

    @property
    def submitted(self) -> int:
        """The number of points submitted."""
        return sum(len(submission.points) for submission, _ in self.arrays)

    def make_notes(self, spec: SweepSpec, points: int, quiet: bool = False) -> list[Note]:
        """For people.

        Args:
            spec: the sweep.
            points: how many it has.
            quiet: without the counts.
        """
        name, failed = spec.name, [f"{key} ({why})" for key, why in self.failed.items()]
        arrays = [
            Note("submitted_array", sweep=name, runs=len(one.points), job=one.job, asked=words(asked))
            for one, asked in self.arrays
        ]
        numbers = {"finished": self.finished, "submitted": self.submitted}
        numbers |= {"queued": self.queued, "live": self.live, "failed": len(failed), "left": self.left}
        advice = [Note("submit_retry", failed=failed)] if failed else []
        advice += [Note("submit_ending", runs=self.ending)] if self.ending else []
        advice += [Note("submit_left", why=self.refusal or "submit_limit")] if self.left else []
        refines = spec.search.mode == REFINE and not self.settled
        advice += [Note("submit_rounds", rate=spec.search.rate)] if refines else []
        advice += [Note("submit_replicas")] if spec.fresh_seeds and not self.settled else []
        counts = [] if quiet else [Note("submitted", sweep=name, points=points, **numbers)]
        return [*arrays, *counts, *advice, *self.troubles.make_notes(name, self.cancelled)]


def check_name(spec: SweepSpec) -> None:
    """Raise UsageError if the name of a sweep is too long for those of its jobs."""
    size = len(spec.name.encode())
    if size > queue.LONGEST_SWEEP:
        raise UsageError(
            f"The name of the sweep '{spec.name}' has {size} bytes, and the names of jobs, by which they are "
            f"found, have room for {queue.LONGEST_SWEEP}; give it a shorter one."
        )


# --- what to submit ---


def select_pending(
    planned: Sequence[Planned],
    point_jobs: Mapping[str, Job],
    run_states: Mapping[str, RunState],
    ending: Collection[str] = (),
) -> tuple[Report, list[Point]]:
    """Select the points that need a job.

    Args:
        planned: the sweep's points.
        point_jobs: the jobs in the queue by their points.
        run_states: the states, read after the queue: a job that ends in between leaves a record.
        ending: jobs that were cancelled and still save; their runs need a new one.
    """
    report, pending = Report(), []
    for point in [p.point for p in planned]:
        state = run_states[point.id]
        owner, is_running = state.owner, state.status is Status.RUNNING
        is_ending = owner is not None and owner.job in ending and owner.cluster == slurm.cluster()
        if state.status.has_ended:
            report.finished += 1
        elif point.id in point_jobs:
            report.queued += 1
        elif state.status is Status.DAMAGED:
            continue
        elif is_running and not is_ending:
            report.live += 1
        elif state.status is Status.FAILED:
            report.failed[point.id] = state.reason
        else:
            report.ending += is_running
            pending.append(point)
    return report, pending


def group_into_arrays(spec: SweepSpec, points: Sequence[Point], largest: int) -> list[Array]:
    """The points as arrays: one resource class each, in the order of the plan, at most `largest` tasks."""
    classes: dict[tuple[Resources, int], list[Point]] = {}
    for point in {point.id: point for point in points}.values():  # two blocks may want the same run
        classes.setdefault((block_of(spec, point).resources, point.processes), []).append(point)
    return [
        Array(resources, tuple(members[first : first + largest]))
        for (resources, _), members in classes.items()
        for first in range(0, len(members), largest)
    ]


def apply_submit_limit(arrays: Sequence[Array], queued: int) -> list[Array]:
    """The arrays up to their `submit_limit`; `queued` is the number of our jobs in the queue."""
    allowed = []
    for array in arrays:
        limit = array.resources.submit_limit
        part = array.points if limit is None else array.points[: max(0, limit - queued)]
        queued += len(part)
        allowed += [replace(array, points=part)] if part else []
    return allowed


# --- submitting ---


def submit(
    store: Store, spec: SweepSpec, planned: Sequence[Planned], options: SubmitOptions = SubmitOptions()
) -> Report:
    """Submit the points that are neither finished, nor at work, nor in the queue.

    Args:
        store: the store.
        spec: the sweep.
        planned: all of its points.
        options: which of them, and whether failed ones, too.

    Raises:
        UsageError: the file lacks stored points, or SLURM is missing, does not answer or refuses. Arrays
            submitted before are stored.
    """
    largest = max_array_size()
    slurm.require("sbatch")
    make_folder(store.root)
    points, selected = [p.point for p in planned], options.select(planned)
    with submitting(store.root):
        write_plan(store.root, spec, planned, replace=options.replace)
        jobs = slurm.queue()
        queue.recover_ids(store.root, jobs)
        run_states = states(store, points)  # after the queue: a job that ends in between leaves a record
        before = troubles.find_troubles(store, spec, points, run_states, jobs)
        unwanted = [id for id in before.removed if jobs[id].pending and jobs[id].user == current_user()]
        queue.scancel(unwanted)
        failed = [p.point for p in selected if run_states[p.point.id].status is Status.FAILED]
        for point in failed:
            with contextlib.suppress(OSError):  # the folder may be another user's
                store.clear_leftovers(point.key)  # perhaps nobody claims the run any more
            if options.retry:
                store.reset_failure(point.key)
        run_states |= states(store, failed)
        point_jobs = queue.map_jobs(submissions.read_all(store.root), jobs)
        ending = slurm.ending(slurm.FRESH)  # of the same answer
        report, pending = select_pending(selected, point_jobs, run_states, ending)
        report.troubles, report.cancelled = before, len(unwanted)
        user_jobs = sum(job.user == current_user() for job in jobs.values())
        if pending:
            code = snapshot.take(store.root, [p.config for p in planned])
            for array in apply_submit_limit(group_into_arrays(spec, pending, largest), user_jobs):
                if not report.refusal:
                    submit_array(store.root, code, spec, array, report)
        report.left = len({point.id for point in pending}) - report.submitted
    if report.refusal and not report.submitted and not user_jobs:
        raise UsageError(f"SLURM does not take a single job of '{spec.name}': {report.refusal}.")
    return report


def max_array_size() -> int:
    """The most tasks of an array; 1 where a site allows no arrays. Raises SlurmError."""
    config = slurm.config()
    tasks = re.findall(r"max_array_tasks=(\d+)", config.get("SchedulerParameters", ""))
    return max(1, min(map(int, [config.get("MaxArraySize", USUAL_ARRAY_SIZE), *tasks])))


def submit_array(root: Path, code: Snapshot, spec: SweepSpec, array: Array, report: Report) -> None:
    """Submit an array; if a limit of the site is in the way, the first half of it, and so on."""
    from htbench.sweeps.cluster import job_array  # imports submitit

    jobs, asked = len(array.points), array.resources.asked(array.processes)
    remarks = {"code": code.folder.name, "resources": asked, "label": queue.label_blocks(array.points)}
    submission = submissions.intend(root, spec.name, [point.id for point in array.points], remarks)
    already = f"; {counted(report.submitted, 'run')} had been submitted before" if report.submitted else ""
    try:
        job = job_array.submit(root, code, submission, array.resources, array.points)
    except UnsureError as error:  # without a stored answer, `recover_ids` looks for it in the queue
        raise UsageError(
            f"{counted(jobs, 'job')} of '{spec.name}' may be in the queue ({error}){already}. Give the same "
            f"command again: it finds them there, or submits them anew."
        ) from None
    except RefusedError as error:
        submissions.answer(root, submission, refused=str(error))
        if not is_limit(str(error)):
            raise UsageError(f"SLURM does not take the jobs of '{spec.name}': {error}{already}.") from None
        report.refusal = str(error)
        if jobs > 1:
            submit_array(root, code, spec, replace(array, points=array.points[: jobs // 2]), report)
        return
    atomic.crash_point("submit.after")
    submissions.answer(root, submission, job=job)
    report.arrays.append((replace(submission, job=job), asked))


def is_limit(refusal: str) -> bool:
    """Whether SLURM would take fewer jobs."""
    name = _LIMIT_NAME.search(refusal)
    return _LIMIT.search(name[0] if name else refusal) is not None


# --- without submitting ---


def write_scripts(
    store: Store, spec: SweepSpec, planned: Sequence[Planned], options: SubmitOptions
) -> list[str]:
    """The scripts for `sbatch` of all arrays that `submit` would submit.

    Without SLURM the queue counts as empty.
    """
    from htbench.sweeps.cluster import job_array  # imports submitit

    largest, jobs = USUAL_ARRAY_SIZE, dict[str, Job]()
    with contextlib.suppress(slurm.SlurmError):
        largest, jobs = max_array_size(), slurm.queue()
    point_jobs = queue.map_jobs(submissions.read_all(store.root), jobs)
    run_states = states(store, [p.point for p in planned])
    _, pending = select_pending(options.select(planned), point_jobs, run_states)
    code = snapshot.name_snapshot(store.root, [p.config for p in planned])
    user_jobs = sum(job.user == current_user() for job in jobs.values())
    scripts = []
    for array in apply_submit_limit(group_into_arrays(spec, pending, largest), user_jobs):
        ids, label = tuple(point.id for point in array.points), queue.label_blocks(array.points)
        one = Submission(spec.name, _NO_WORD, ids, label=label)
        order = job_array.encode_order(array.points)
        scripts.append(
            job_array.write_array_script(store.root, code, one, array.resources, array.processes, order)
        )
    return scripts


def shorten_check(script: str) -> str:
    """A script as a person reads it: CHECK stands for the Python that jobs begin with, the same in all."""
    return script.replace(shlex.quote(Path(verify.__file__).read_text(encoding="utf-8")), CHECK)


def ask_slurm(sweep: str, arrays: Sequence[str]) -> list[Note]:
    """Ask SLURM about each array by its script; its answers.

    Raises:
        SlurmError: SLURM does not answer.
        UsageError: SLURM would refuse an array.
    """
    answers = []
    for number, text in enumerate(arrays, 1):
        try:
            answers.append(Note("slurm_takes", partition=sbatch.test_only(text)))
        except RefusedError as error:
            raise UsageError(f"SLURM would refuse array {number} of '{sweep}': {error}.") from None
    return answers
