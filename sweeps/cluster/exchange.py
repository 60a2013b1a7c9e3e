"""`submit --replace`: take back jobs that wait and ask for what the file no longer says.

Whoever dies after this leaves points without a job: the same command again submits them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.store.points import Point
from harness.system import atomic
from harness.system.squeue import Job
from sweeps.cluster import sbatch, submissions
from sweeps.cluster.sbatch import RefusedError
from sweeps.cluster.snapshot import Snapshot
from sweeps.cluster.stale import Outdated
from sweeps.cluster.submissions import Submission
from sweeps.plan.planned import block_of
from sweeps.spec.sweep import SweepSpec

# What `sbatch --test-only` refuses for now, but `sbatch` lets wait: nodes or a partition that are down.
_FOR_NOW = re.compile(r"\((down|inactive)|busy", re.IGNORECASE)


def cancel(
    root: Path,
    spec: SweepSpec,
    points: Sequence[Point],
    old: Sequence[Outdated],
    jobs: Mapping[str, Job],
    avoid: Collection[str],
) -> None:
    """Cancel jobs that wait, if SLURM would take others in their place.

    Args:
        root: the store, whose submissions the caller has locked.
        spec: the sweep.
        points: its points.
        old: the jobs; those that have begun meanwhile go on.
        jobs: the queue.
        avoid: nodes that the new ones keep off.

    Raises:
        UsageError: SLURM would refuse the new ones, so nothing is cancelled, or it does not answer.
    """
    from sweeps.cluster import job_array

    going = {point for one in old for point in one.points}
    own = [point for point in points if point.id in going]
    for wants, processes in dict.fromkeys(
        (block_of(spec, point).resources, point.processes) for point in own
    ):
        one = Submission(spec.name, "0123456789", ("",))
        text = job_array.text(root, Snapshot(root, ""), one, wants.keeping_off(avoid), processes)
        try:
            sbatch.test_only(text)
        except RefusedError as error:
            if not _FOR_NOW.search(str(error)):
                raise UsageError(
                    f"SLURM would refuse what '{spec.name}' asks for now, so its queued jobs stay: {error}."
                ) from None
    submissions.cancel_pending([one.job for one in old], jobs)
    atomic.crash_point("submit.exchange")
