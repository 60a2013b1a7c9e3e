"""Jobs that ended before their run began, and jobs whose run failed within its first minute.

Only logs, attempts and, where a node could not even write a log, `scontrol` are asked: `sacct` needs a
database that not every site has.
"""

from __future__ import annotations

import datetime
import functools
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.store import Store
from harness.store.points import Point, filled
from harness.system import slurm
from harness.system.slurm import SlurmError
from sweeps.cluster import job_log, submissions
from sweeps.cluster.job_log import JobLog
from sweeps.cluster.submissions import Submission

MOST_JOBS = 300  # the newest; more logs take too long to read
MOST_QUESTIONS = 3  # arrays that SLURM is asked about, as their jobs have no logs
MOST_LINES = 3
FIRST_MINUTE = 60.0
# Outcomes of an attempt. Empty: its process died. A run that was stopped for a reason, such as a node without
# the GPUs that it promised, has a message; one that was asked to stop has none.
_FAILURES = ("", "error", "oom", "stopped")


@dataclass(frozen=True)
class EarlyEnd:
    """A job that ended early; one with several runs counts once, and only if none of them went on for longer.

    Attributes:
        point: the id of its point, of several the first.
        job: its id.
        array: the submission that it belongs to.
        latest: whether no later job was submitted for the point.
        begun: whether its run had begun.
        told: node, times and error. The node is that of the owner of the run if the log does not name one.
        path: of its log.
    """

    point: str
    job: str
    array: Submission
    latest: bool
    begun: bool
    told: JobLog
    path: Path


def find(store: Store, sweep: str, points: Sequence[Point], queued: Collection[str]) -> list[EarlyEnd]:
    """The jobs for some points that ended early, the newest first.

    Args:
        store: the store.
        sweep: the sweep's name.
        points: those without a result; a job with a point that has one did not end early.
        queued: the ids of all jobs in the queue, which was read after the states of the points.
    """
    wanted = {point.id: point for point in points}
    found, questions = list[EarlyEnd](), list[str]()
    jobs = list(_jobs(store.root, sweep, wanted))
    gone = [one for one in jobs if one[2] not in queued][:MOST_JOBS]
    last = {point: job for _, own, job in reversed(jobs) for point in own}
    for array, own, job in gone:
        path = log_path(store.root, array, job)
        log = job_log.read(path) or _without_folder(path)
        if log is None and (array.job in questions or len(questions) < MOST_QUESTIONS):
            questions += [array.job] if array.job not in questions else []
            log = _shown(job)
        told = [_told(store, filled(store.root, wanted[point]), job, log) for point in own]
        known = [one for one in told if one is not None]
        if len(known) == len(own):
            begun, what = max(known, key=lambda one: one[0])
            found.append(EarlyEnd(own[0], job, array, last[own[0]] == job, begun, what, path))
    return found


def _jobs(root: Path, sweep: str, wanted: Collection[str]) -> Iterator[tuple[Submission, Sequence[str], str]]:
    """The jobs all of whose points are wanted, the newest submissions first: submission, points, job."""
    for array in reversed(submissions.read(root, sweep)):
        for job, points in array.jobs().items() if array.job else ():
            if all(point in wanted for point in points):
                yield array, points, job


def log_path(root: Path, array: Submission, job: str) -> Path:
    """Where the output of a job goes."""
    from sweeps.cluster.job_array import log_folder  # imports submitit

    return job_log.of_job(log_folder(root, array), job)


def _told(store: Store, point: Point, job: str, log: JobLog | None) -> tuple[bool, JobLog] | None:
    """Whether the run had begun, and what is known of the job; None if it did not end early."""
    for number in range(store.last_attempt(point.key) if point.key else 0, 0, -1):
        attempt = store.attempt(point.key, number)
        owner = attempt.get("owner") or {}
        if owner.get("job") == job:
            failed = _failure(attempt, store.files(point.key).attempt(number))
            if failed is None:
                return None
            if log is None:
                return True, replace(failed, node=str(owner.get("host", "")).partition(".")[0])
            return True, replace(log, ended=failed.ended, error=failed.error or log.error)
    return (False, log) if log is not None and log.error else None


def _failure(attempt: dict[str, Any], heartbeat: Path) -> JobLog | None:
    """What an attempt tells of its job; None if it went on for longer, or did not fail."""
    outcome, began = attempt.get("outcome") or {}, attempt.get("began")
    ended = attempt.get("ended") or (heartbeat.stat().st_mtime if not outcome else None)
    message = str(outcome.get("message", "")).strip().split("\n")[0]
    reason = outcome.get("reason", "")
    if reason not in _FAILURES or (reason == "stopped" and not message) or began is None or ended is None:
        return None
    return JobLog("", began, ended, message, False) if ended - began < FIRST_MINUTE else None


# --- jobs without a log ---


def _without_folder(path: Path) -> JobLog | None:
    """Of a job whose folder somebody has removed: what it was to do was there, too."""
    logs = path.parent.parent
    if path.parent.is_dir() or not logs.is_dir():
        return None
    error = f"'{path.parent}', where they look for what to do, is gone; the next `submit` writes it anew"
    return JobLog("", None, time.time(), error, False)


def _shown(job: str) -> JobLog | None:
    """What SLURM tells of a job that could not write its log; it forgets them after some minutes."""
    row = _rows(job.partition("_")[0], int(time.monotonic() // slurm.FRESH)).get(job, {})
    if row.get("JobState") not in ("FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"):
        return None
    if row.get("BatchHost", "(null)") == "(null)":
        return None
    began, ended = (_time(row.get(name, "")) for name in ("StartTime", "EndTime"))
    error = f"no log was written ({row['JobState']}, exit code {row.get('ExitCode', 'unknown')})"
    return JobLog(row["BatchHost"], began, ended or time.time(), error, False)


@functools.lru_cache(maxsize=64)
def _rows(array: str, when: int) -> dict[str, dict[str, str]]:
    """What SLURM tells of the jobs of an array by their ids; `when` changes with time, as the answer does."""
    try:
        lines = slurm.call("scontrol", "show", "job", "-o", array).splitlines()
    except SlurmError:  # it has forgotten them
        return {}
    rows = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines]
    return {
        f"{row['ArrayJobId']}_{row['ArrayTaskId']}" if "ArrayTaskId" in row else row.get("JobId", ""): row
        for row in rows
    }


def _time(text: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:  # "Unknown"
        return None


# --- in words ---


def grouped(ended: Sequence[EarlyEnd]) -> list[list[EarlyEnd]]:
    """The jobs by their errors, the most frequent first; numbers and nodes in an error make no difference."""
    groups: dict[str, list[EarlyEnd]] = {}
    for one in ended:
        error = one.told.error.replace(one.told.node or "NODE", "NODE")
        groups.setdefault(re.sub(r"\d+", "N", error), []).append(one)
    return sorted(groups.values(), key=len, reverse=True)


def lines(sweep: str, ended: Sequence[EarlyEnd]) -> list[str]:
    """A line for each error."""
    groups = grouped(ended)
    shown = [
        f"{sweep}: {len(group)} jobs ended before their run began: {group[0].told.error} "
        f"({''.join(f'{where}; ' for where in [_nodes(group)] if where)}log: {group[0].path})"
        for group in groups[:MOST_LINES]
    ]
    rest = sum(map(len, groups[MOST_LINES:]))
    return shown + ([f"{sweep}: {rest} more jobs ended before their run began"] if rest else [])


def _nodes(group: Sequence[EarlyEnd]) -> str:
    counts = Counter(one.told.node for one in group if one.told.node).most_common()
    if len(counts) == 1 and counts[0][1] == len(group):
        return f"on {counts[0][0]}"
    shown = ", ".join(f"{n} on {node}" for node, n in counts[:5])
    return f"{shown}, ..." if len(counts) > 5 else shown


def to_json(ended: Sequence[EarlyEnd]) -> list[dict[str, Any]]:
    """A row for each error and node."""
    rows = []
    for group in grouped(ended):
        for node in dict.fromkeys(one.told.node for one in group):
            own = [one for one in group if one.told.node == node]
            rows.append(
                {
                    "reason": own[0].told.error,
                    "node": node,
                    "jobs": [one.job for one in own],
                    "seconds": longest(own),
                    "log": str(own[0].path),
                }
            )
    return rows


def longest(ended: Sequence[EarlyEnd]) -> float | None:
    """The most seconds that one of the jobs took; None if nothing tells."""
    return max((one.told.seconds for one in ended if one.told.seconds is not None), default=None)
