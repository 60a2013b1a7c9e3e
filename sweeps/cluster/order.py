"""What the jobs of an array are to do: one file, complete before `sbatch` is called.

    python -m sweeps.cluster.order FOLDER DIGEST ROOT CODE     what each process of a job executes

The digest is on the command line, which SLURM keeps: a job does what was submitted, or nothing. The file is
plain JSON, as loading a pickle executes what somebody may have put in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.store.points import Point
from harness.system import atomic
from sweeps.cluster.job_log import NO_TASK
from sweeps.cluster.submissions import Submission

NAME = "order.json"


def content(submission: Submission, points: Sequence[Point]) -> bytes:
    """The file of an array.

    Args:
        submission: the array.
        points: those of the submission.
    """
    of = {point.id: asdict(point) for point in points}
    jobs = [[of[id] for id in submission.share(task)] for task in range(submission.tasks)]
    return json.dumps({"together": submission.runs_per_job > 1, "jobs": jobs}).encode()


def digest(data: bytes) -> str:
    """The word on the command line."""
    return hashlib.sha256(data).hexdigest()


def write(folder: Path, data: bytes) -> None:
    """Put the file beside the logs of its array."""
    atomic.write_bytes(folder / NAME, data)


def read(folder: Path, expected: str) -> Any:
    """The content of the file.

    Raises:
        SystemExit: it is gone, or is not what was submitted.
    """
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        sys.exit(f"htbench: {NO_TASK}")
    if digest(data) != expected:
        sys.exit(f"htbench: '{folder / NAME}' is not what was submitted; this job ends")
    return json.loads(data)


def main(folder: str, expected: str, root: str, code: str) -> None:
    """Do the work of this job. Raises SystemExit always."""
    from sweeps.cluster import job, packed_job  # import torch

    order = read(Path(folder), expected)
    points = order["jobs"][int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))]
    if order["together"]:
        packed_job.work(root, code, points, folder)
    job.work(root, code, points[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
