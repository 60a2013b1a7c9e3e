"""`htbench sweep submit`: which runs need a job, in which arrays, and what SLURM answers.

One process at a time submits to a store, under a lock. If it dies, the next one finds in the queue what was
submitted and not stored. A job for a run that is finished or at work elsewhere ends at once.
"""

from __future__ import annotations

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
from htbench.harness.store.owner import Owner, current_user
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
_NAMED = re.compile(r"\b(Assoc|QOS)(Max|Min|Grp)\w+")
_LIMIT = re.compile(r"(Max|Grp)\w*(Submit|Jobs)|job submit limit|job array size", re.IGNORECASE)
CHECK = "'...'"  # in place of `verify` on a screen
_NO_WORD = "0123456789"  # in place of a submission's


@dataclass(frozen=True)
class SubmitOptions:
    """What the options of `submit` say.

    Attributes:
        block: the block whose points are submitted; empty: all.
        retry: failed runs again, too.
        replace: let the file replace the stored plan, also where it lacks points of it.
    """

    block: str = ""
    retry: bool = False
    replace: bool = False

    def of_block(self, planned: Sequence[Planned]) -> Sequence[Planned]:
        """The points of the block."""
        return [one for one in planned if one.point.block == self.block] if self.block else planned


@dataclass(frozen=True)
class Array:
    """Points of one resource class that are submitted together; their runs have equally many processes."""

    resources: Resources
    points: tuple[Point, ...]
    processes: int = 1

    def first(self, jobs: int) -> Array:
        """So many of its first jobs."""
        return replace(self, points=self.points[:jobs])


@dataclass
class Report:
    """The result of a submission, by what each point needed.

    Attributes:
        finished: points with a record.
        queued: points with a job already.
        live: points at work on some machine, without a job in the queue.
        ending: points submitted while the job before theirs is ending; the new one waits for it.
        failed: point -> reason; not submitted unless asked for.
        arrays: what was submitted, each with what its jobs ask for.
        left: points that a limit leaves to the next call.
        refusal: SLURM's message about the limit; empty without one.
        troubles: what was wrong with jobs before.
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

    @property
    def settled(self) -> bool:
        """Whether nothing is left to wait for."""
        return not (self.submitted or self.queued or self.live or self.left)

    @property
    def submitted(self) -> int:
        """The number of points submitted."""
        return sum(len(submission.points) for submission, _ in self.arrays)

    def notes(self, spec: SweepSpec, points: int, quiet: bool = False) -> list[Note]:
        """For people.

        Args:
            spec: the sweep.
            points: how many it has.
            quiet: without the counts.
        """
        name, failed = spec.name, [f"{key} ({why})" for key, why in self.failed.items()]
        arrays = [
            Note(
                "submitted_array",
                sweep=name,
                runs=len(one.points),
                job=one.job,
                asked=words(asked),
            )
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
        return [*arrays, *counts, *advice, *self.troubles.notes(name)]


def check(root: Path, spec: SweepSpec) -> None:
    """Refuse names that jobs of a sweep can't have.

    Args:
        root: the store.
        spec: the sweep.

    Raises:
        UsageError: one sentence.
    """
    size = len(spec.name.encode())
    if size > queue.LONGEST_SWEEP:
        raise UsageError(
            f"The name of the sweep '{spec.name}' has {size} bytes, and the names of jobs, by which they are "
            f"found, have room for {queue.LONGEST_SWEEP}; give it a shorter one."
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
    known: Mapping[str, RunState],
    retry: bool,
    ending: Collection[str] = (),
) -> tuple[Report, list[Point]]:
    """Select the points that need a job.

    Args:
        store: where the runs are.
        planned: the sweep's points.
        taken: points with a job in the queue.
        known: the states, read after the queue: a job that ends in between leaves a record.
        retry: whether failed runs need one.
        ending: jobs that were cancelled and still save; what they are at needs a new one.
    """
    report, todo = Report(), []
    for one in planned:
        name, state = one.point.id, known[one.point.id]
        if state.status.has_ended:
            report.finished += 1
        elif name in taken:
            report.queued += 1
        elif state.status is Status.RUNNING and not _is_of(state.owner, ending):
            report.live += 1
        elif state.status is Status.FAILED and not (retry and store.reset_failure(one.point.key)):
            report.failed[name] = state.reason
        else:
            report.ending += state.status is Status.RUNNING
            todo.append(one.point)
    return report, todo


def _is_of(owner: Owner | None, jobs: Collection[str]) -> bool:
    """Whether an owner is part of one of these jobs of this cluster."""
    return owner is not None and owner.job in jobs and owner.cluster == slurm.cluster()


def group_into_arrays(spec: SweepSpec, points: Sequence[Point], largest: int) -> list[Array]:
    """The points as arrays: one resource class each, in the order of the plan, at most `largest` tasks."""
    classes: dict[tuple[Resources, int], list[Point]] = {}
    for point in {point.id: point for point in points}.values():  # two blocks may want the same run
        classes.setdefault((block_of(spec, point).resources, point.processes), []).append(point)
    return [
        Array(resources, tuple(members[first : first + largest]), processes)
        for (resources, processes), members in classes.items()
        for first in range(0, len(members), largest)
    ]


def apply_submit_limit(arrays: Sequence[Array], queued: int) -> list[Array]:
    """The arrays up to their `submit_limit`; `queued` is the number of our jobs in the queue."""
    allowed = []
    for array in arrays:
        limit = array.resources.submit_limit
        part = array if limit is None else array.first(max(0, limit - queued))
        queued += len(part.points)
        allowed += [part] if part.points else []
    return allowed


def _taken(store: Store, jobs: Mapping[str, Job], failed: Sequence[Point]) -> dict[str, Job]:
    """The points that have a job in the queue: id -> job.

    Args:
        store: where the runs are.
        jobs: the queue.
        failed: points to be tried again. One whose job has yet to look at it is reset for that job.
    """
    taken, keys = {}, {point.id: point.key for point in failed}
    for _, point, job in queue.in_queue(submissions.read_all(store.root), jobs):
        if job.pending and point in keys:
            store.reset_failure(keys[point])
        taken[point] = job
    return taken


# --- submitting ---


def submit(
    store: Store, spec: SweepSpec, planned: Sequence[Planned], options: SubmitOptions = SubmitOptions()
) -> Report:
    """Submit what is neither finished, nor at work, nor in the queue.

    Args:
        store: the store.
        spec: the sweep.
        planned: all of its points.
        options: what else is asked for.

    Raises:
        UsageError: the file lacks stored points, or SLURM is missing, does not answer or refuses. Arrays
            submitted before that are stored.
    """
    largest = max_array_size()
    slurm.require("sbatch")
    make_folder(store.root)
    points, wanted = [one.point for one in planned], options.of_block(planned)
    with submitting(store.root):
        write_plan(store.root, spec, planned, replace=options.replace)
        jobs = slurm.queue()
        queue.recover(store.root, jobs)
        known = states(store, points)  # after the queue: a job that ends in between leaves a record
        wrong = troubles.look(store, spec, points, known, jobs)
        again = wanted if options.retry else ()
        failed = [one.point for one in again if known[one.point.id].status is Status.FAILED]
        taken = _taken(store, jobs, failed)
        known |= states(store, failed)
        ending = slurm.ending(slurm.FRESH)  # of the same answer
        report, todo = select_pending(store, wanted, taken, known, options.retry, ending)
        report.troubles = wrong
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


def max_array_size() -> int:
    """The most tasks of an array; 1 where a site allows no arrays. Raises SlurmError."""
    config = slurm.config()
    tasks = re.findall(r"max_array_tasks=(\d+)", config.get("SchedulerParameters", ""))
    return max(1, min(map(int, [config.get("MaxArraySize", USUAL_ARRAY_SIZE), *tasks])))


def _send(root: Path, code: Snapshot, spec: SweepSpec, array: Array, report: Report) -> None:
    """Submit an array; if a limit of the site is in the way, as much of it as goes through by halves."""
    from htbench.sweeps.cluster import job_array  # imports submitit

    jobs, wants = len(array.points), array.resources
    remarks: dict[str, Any] = {
        "code": code.folder.name,
        "resources": wants.asked(array.processes),
        "label": queue.of_blocks(array.points),
    }
    one = submissions.intend(root, spec.name, [point.id for point in array.points], remarks)
    already = f"; {counted(report.submitted, 'run')} had been submitted before" if report.submitted else ""
    try:
        job = job_array.submit(root, code, one, wants, array.points)
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
            _send(root, code, spec, array.first(jobs // 2), report)
        return
    atomic.crash_point("submit.after")
    submissions.answer(root, one, job=job)
    report.arrays.append((replace(one, job=job), wants.asked(array.processes)))


def _is_limit(said: str) -> bool:
    """Whether SLURM would take fewer jobs."""
    named = _NAMED.search(said)
    return _LIMIT.search(named[0] if named else said) is not None


# --- looking only ---


def scripts(store: Store, spec: SweepSpec, planned: Sequence[Planned], options: SubmitOptions) -> list[str]:
    """What `sbatch` would get to read for all arrays that `submit` would submit.

    Without SLURM the queue counts as empty.
    """
    from htbench.sweeps.cluster import job_array  # imports submitit

    largest, jobs = USUAL_ARRAY_SIZE, dict[str, Job]()
    with contextlib.suppress(slurm.SlurmError):
        largest, jobs = max_array_size(), slurm.queue()
    taken = queue.queued(submissions.read_all(store.root), jobs)
    known = states(store, [one.point for one in planned])
    _, todo = select_pending(store, options.of_block(planned), taken, known, retry=False)
    code = snapshot.version(store.root, [one.config for one in planned])
    ours = sum(job.user == current_user() for job in jobs.values())
    texts = []
    for array in apply_submit_limit(group_into_arrays(spec, todo, largest), ours):
        ids, label = tuple(point.id for point in array.points), queue.of_blocks(array.points)
        one = Submission(spec.name, _NO_WORD, ids, label=label)
        content = job_array.order(one, array.points)
        texts.append(job_array.text(store.root, code, one, array.resources, array.processes, content))
    return texts


def without_check(script: str) -> str:
    """A script as a person reads it: CHECK stands for the Python that jobs begin with, the same in all."""
    return script.replace(shlex.quote(Path(verify.__file__).read_text(encoding="utf-8")), CHECK)


def ask_about(sweep: str, arrays: Sequence[str]) -> list[Note]:
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
