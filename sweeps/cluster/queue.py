"""SLURM on the screen: the messages of `submit` and `cancel`, and the queue in `plan` and `status`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.display import counted
from harness.errors import UsageError
from harness.show.status import Status
from harness.store import Kind, RunState, Store
from harness.system import slurm
from harness.system.slurm import SlurmError
from harness.system.squeue import Job
from sweeps.cluster import sbatch, submissions, submit
from sweeps.cluster.sbatch import RefusedError
from sweeps.cluster.submit import Report
from sweeps.plan.planned import Planned
from sweeps.spec.sweep import SweepSpec


def submit_and_report(
    store: Store,
    spec: SweepSpec,
    planned: Sequence[Planned],
    retry: bool,
    *,
    replace: bool = False,
    exclude_failing: bool = False,
    quiet: bool = False,
    block: str = "",
) -> None:
    """Submit what is missing (`submit.submit`) and print what was; `quiet` omits the counts."""
    report = submit.submit(
        *(store, spec, planned, retry, block), replace=replace, exclude_failing=exclude_failing
    )
    for one, wants in report.arrays:
        jobs = f" in {counted(one.tasks, 'job')}" if one.runs_per_job > 1 else ""
        print(f"{spec.name}: {counted(len(one.points), 'run')}{jobs} as job {one.job} ({wants})")
    counts = {
        "finished": report.finished,
        "submitted": report.submitted,
        "exchanged in the queue": len(report.exchanged),
        "in the queue already": report.queued,
        "at work": report.live,
        "failed": len(report.failed),
        "left": report.left,
    }
    if not quiet:
        shown = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
        print(f"{spec.name}: {counted(len(submit.of_block(planned, block)), 'point')}, {shown}")
    _advise(spec, report)
    for line in report.troubles.lines_of_submit(len(report.exchanged) if replace else None):
        print(line)


def _advise(spec: SweepSpec, report: Report) -> None:
    if report.failed:
        reasons = ", ".join(f"{key} ({why})" for key, why in report.failed.items())
        print(f"  failed: {reasons}; `htbench sweep submit --retry` submits them again")
    if report.ending:
        print(f"  {report.ending} of them wait for jobs that were cancelled and are saving these runs")
    for name, n in report.left_to.items():
        print(
            f"  of the exchanged jobs, {counted(n, 'run is', 'runs are')} of '{name}' only; "
            f"`htbench sweep submit` of that sweep gives them a job again"
        )
    if report.left:
        why = report.refusal or "submit_limit"
        print(f"  left because of a limit ({why}): the same command submits them when jobs have ended")
    if spec.fresh_seeds and not report.settled:
        print("  replicas of winners follow: the same command submits them once the grid is done")


def cancel_and_report(
    store: Store, spec: SweepSpec, points: Collection[str] | None = None, spared: Collection[str] = ()
) -> None:
    """Cancel a sweep's jobs, or only those for some points, and print how many."""
    ours, others, mixed = submissions.cancel(store.root, spec.name, points, spared)
    rest = f"; {others} of other people go on" if others else ""
    too = "with runs of other blocks, too,"
    rest += f"; {counted(mixed, f'job {too} goes on', f'jobs {too} go on')}" if mixed else ""
    print(f"{spec.name}: {counted(ours, 'job')} cancelled{rest}")


def in_queue(store: Store, points: Collection[str]) -> dict[str, Job]:
    """The jobs of those points that are in the queue; none if SLURM does not answer (`say_if_silent`)."""
    try:
        return submissions.jobs_for(store.root, points, slurm.FRESH)
    except SlurmError:
        return {}


def say_if_silent(store: Store, specs: Sequence[SweepSpec]) -> None:
    """Print one line if the queue is needed and SLURM does not answer."""
    try:
        if any(submissions.read(store.root, spec.name) for spec in specs):
            slurm.queue(slurm.FRESH)
    except SlurmError as error:
        print(f"htbench: the queue is left out: {error}", file=sys.stderr)


def with_queue(states: Mapping[str, RunState], jobs: Mapping[str, Job]) -> dict[str, RunState]:
    """The states, with `queued` for waiting runs that have a job."""
    return {
        key: replace(state, status=Status.QUEUED) if state.kind is Kind.WAITING and key in jobs else state
        for key, state in states.items()
    }


def why_they_wait(spec: SweepSpec, jobs: Mapping[str, Job]) -> list[str]:
    """Why jobs are pending: one line for each reason that SLURM gives."""
    reasons = Counter(job.reason for job in {job.id: job for job in jobs.values()}.values() if job.pending)
    return [
        f"{spec.name}: {counted(n, 'job waits', 'jobs wait')} in the queue ({why})"
        for why, n in sorted(reasons.items())
    ]


def without_orders(store: Store, spec: SweepSpec, jobs: Mapping[str, Job]) -> list[str]:
    """A line on jobs that wait in the queue and will not find what to do: somebody has removed it."""
    waiting = {job.id for job in jobs.values() if job.pending}
    if not waiting:
        return []
    from sweeps.cluster import order
    from sweeps.cluster.job_array import log_folder

    lost: Counter[Path] = Counter()
    for one in submissions.read(store.root, spec.name):
        folder = log_folder(store.root, one)
        told = (folder / order.NAME).exists() or any(folder.glob("*_submitted.pkl"))  # of older code
        if one.job and not told:
            lost[folder] += len(waiting.intersection(one.jobs()))
    return [
        f"{spec.name}: {counted(n, 'job')} in the queue will end at once, the work is gone from '{folder}'; "
        f"`htbench sweep cancel` and `submit` replace them"
        for folder, n in lost.items()
        if n
    ]


def ask_about(name: str, arrays: Sequence[str]) -> list[str]:
    """Ask SLURM about each array; its answers.

    Raises:
        SlurmError: SLURM does not answer.
        UsageError: SLURM would refuse an array.
    """
    answers = []
    for number, text in enumerate(arrays, 1):
        try:
            answers.append(sbatch.test_only(text))
        except RefusedError as error:
            raise UsageError(f"SLURM would refuse array {number} of '{name}': {error}.") from None
    return answers
