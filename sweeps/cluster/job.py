"""What a job of an array does, in each process of its run.

    python -m sweeps.cluster.job FOLDER DIGEST ROOT CODE

What the jobs of an array are to do is in one file of FOLDER (`job_array.order`). Its digest is on the command
line, which SLURM keeps: a job does what was submitted, or nothing. The file is plain JSON, as loading a
pickle executes what somebody may have put in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from harness.config import parts
from harness.config.key import run_key
from harness.config.settings import resolve_config
from harness.store.points import Point
from harness.system import streams
from harness.train.monitor import Monitor
from sweeps.cluster import packed_job
from sweeps.cluster.following import following
from sweeps.cluster.job_log import NO_TASK
from sweeps.cluster.queue import ORDER, tell_point
from sweeps.cluster.requeue import PATIENCE, check_code, come_back, comes_back, say
from sweeps.run.execute import EXIT_DONE, EXIT_STOPPED, execute


def main(folder: str, digest: str, root: str, code: str) -> None:
    """Train the run of this job, or its runs, as far as signals allow; the exit status is that of `execute`.

    Args:
        folder: of the array's order and logs.
        digest: of the order.
        root: the store.
        code: the snapshot to run from.

    Raises:
        SystemExit: always.
    """
    order = read_order(Path(folder), digest)
    points = [Point(**fields) for fields in order["jobs"][int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))]]
    if order["together"]:
        packed_job.work(root, code, points, folder)
    work(root, code, points[0])


def read_order(folder: Path, digest: str) -> Any:
    """What the jobs of an array are to do.

    Raises:
        SystemExit: the file is gone, or is not what was submitted.
    """
    try:
        data = (folder / ORDER).read_bytes()
    except FileNotFoundError:
        sys.exit(f"htbench: {NO_TASK}")
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit(f"htbench: '{folder / ORDER}' is not what was submitted; this job ends")
    return json.loads(data)


def work(root: str, code: str, point: Point) -> None:
    """Train a point's run and the rounds that follow, as far as signals allow. Raises SystemExit always."""
    streams.settle()
    monitor = Monitor(patience=PATIENCE)
    monitor.stop_on_signals()
    # A signal that came this early leaves perhaps too little time to load and save; the processes of a run
    # stop together, so there it is left to them.
    warned = monitor.stop_requested and point.processes == 1
    status = EXIT_STOPPED if warned else _execute(Path(root), code, point, monitor)
    last = status
    while last == EXIT_DONE and point.processes == 1 and (new := following(Path(root), [point])):
        last = EXIT_STOPPED if monitor.stop_requested else _execute(Path(root), code, new[0], monitor)
        status = EXIT_STOPPED if last == EXIT_STOPPED else status
    if status == EXIT_STOPPED and comes_back(monitor):
        come_back()
    sys.exit(status)


def _execute(root: Path, code: str, point: Point, monitor: Monitor) -> int:
    check_code(code)
    parts.allow(parts.named(point.overrides))
    if not point.slot and run_key(resolve_config(point.overrides)) != point.key:
        sys.exit(f"htbench: run {point.key} was planned with other data or defaults than this node has.")
    tell_point(point)
    if point.processes > 1:
        from submitit.helpers import TorchDistributedEnvironment

        TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    return execute(root, point, monitor, say)


if __name__ == "__main__":
    main(*sys.argv[1:])
