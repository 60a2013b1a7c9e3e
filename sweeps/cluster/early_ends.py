"""Jobs that ended before their run began, and jobs whose run failed within its first minute.

A job with several runs ended before they began if none of them did, and failed if each that began did so
within its first minute. It counts once.

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

from harness.display import counted
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
    """A job that ended early.

    Attributes:
        job: its id.
        array: the submission that it belongs to.
        points: the ids of its points without a result for which no later job was submitted.
        begun: whether one of its runs had begun.
        told: node, times and error. The node is that of the owner of the run if the log does not name one.
        path: of the log that tells the error.
    """

    job: str
    array: Submission
    points: tuple[str, ...]
    begun: bool
    told: JobLog
    path: Path


def find(
    store: Store, sweep: str, points: Sequence[Point], finished: Collection[str], queued: Collection[str]
) -> list[EarlyEnd]:
    """The jobs that ended early and have points without a result, the newest first.

    Args:
        store: the store.
        sweep: the sweep's name.
        points: its points.
        finished: the ids of those with a result.
        queued: the ids of all jobs in the queue, which was read after the states of the points.
    """
    known = {point.id: point for point in points}
    unfinished = known.keys() - set(finished)
    found, questions = list[EarlyEnd](), list[str]()
    jobs = list(_jobs(store.root, sweep, unfinished))
    gone = [one for one in jobs if one[1] not in queued][:MOST_JOBS]
    last = {point: job for _, job, share in reversed(jobs) for point in share}
    for array, job, share in gone:
        path = log_path(store.root, array, job)
        log = job_log.read(path) or _without_folder(path)
        if log is None and (array.job in questions or len(questions) < MOST_QUESTIONS):
            questions += [array.job] if array.job not in questions else []
            log = _shown(job)
        own = [filled(store.root, known[point]) for point in share if point in known]
        if told := _told(store, array, job, own, log):
            latest = tuple(point for point in share if point in unfinished and last[point] == job)
            found.append(EarlyEnd(job, array, latest, *told))
    return found


def _jobs(
    root: Path, sweep: str, unfinished: Collection[str]
) -> Iterator[tuple[Submission, str, tuple[str, ...]]]:
    """The jobs with unfinished points, the newest submissions first: submission, job, all of its points."""
    for array in reversed(submissions.read(root, sweep)):
        for job, points in array.jobs().items() if array.job else ():
            if any(point in unfinished for point in points):
                yield array, job, points


def log_path(root: Path, array: Submission, job: str) -> Path:
    """Where the output of a job goes."""
    from sweeps.cluster.job_array import log_folder  # imports submitit

    return job_log.of_job(log_folder(root, array), job)


def log_paths(root: Path, array: Submission, job: str, point: str) -> list[Path]:
    """Where a run's output may be: in a log of its own, if its job has several, and in that of the job."""
    path = log_path(root, array, job)
    return [job_log.of_run(path.parent, job, point), path] if array.runs_per_job > 1 else [path]


def _told(
    store: Store, array: Submission, job: str, points: Sequence[Point], log: JobLog | None
) -> tuple[bool, JobLog, Path] | None:
    """Whether a run had begun, what is known of the job, and which log tells; None if it did not end early.

    Args:
        store: the store.
        array: the submission of the job.
        job: its id.
        points: its points that the sweep still has.
        log: the job's log.
    """
    began = list[tuple[JobLog, Point]]()
    for point in points:
        if (attempt := _attempt(store, point, job)) is not None:
            failed = _failure(*attempt)
            if failed is None:
                return None
            began.append((failed, point))
    path = log_path(store.root, array, job)
    if began:
        first, point = min(began, key=lambda one: one[0].ended)
        own = next((log for log in log_paths(store.root, array, job, point.id) if log.exists()), path)
        read = job_log.read(own) if own != path else log
        error, ended = first.error or (read.error if read else ""), max(one.ended for one, _ in began)
        return True, replace(log or first, ended=ended, error=error), own
    # The job itself may have nothing to say where the processes of its runs could not begin.
    for own in (log_paths(store.root, array, job, point.id)[0] for point in points):
        if own != path and (read := job_log.read(own)) and read.error:
            return False, replace(log or read, error=read.error), own
    return (False, log, path) if log is not None and log.error else None


def _attempt(store: Store, point: Point, job: str) -> tuple[dict[str, Any], Path] | None:
    """The last attempt that a job made at a run, and its file; None without any."""
    for number in range(store.last_attempt(point.key) if point.key else 0, 0, -1):
        attempt = store.attempt(point.key, number)
        if (attempt.get("owner") or {}).get("job") == job:
            return attempt, store.files(point.key).attempt(number)
    return None


def _failure(attempt: dict[str, Any], heartbeat: Path) -> JobLog | None:
    """What an attempt tells of its job; None if it went on for longer, or did not fail."""
    outcome, began = attempt.get("outcome") or {}, attempt.get("began")
    ended = attempt.get("ended") or (heartbeat.stat().st_mtime if not outcome else None)
    message = str(outcome.get("message", "")).strip().split("\n")[0]
    reason = outcome.get("reason", "")
    if reason not in _FAILURES or (reason == "stopped" and not message) or began is None or ended is None:
        return None
    node = str(attempt["owner"].get("host", "")).partition(".")[0]
    return JobLog(node, began, ended, message, False) if ended - began < FIRST_MINUTE else None


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
    rows = [slurm.fields(line) for line in lines]
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
        f"{sweep}: {counted(len(group), 'job')} ended before {_runs(group)} began: {group[0].told.error} "
        f"({''.join(f'{where}; ' for where in [_nodes(group)] if where)}log: {group[0].path})"
        for group in groups[:MOST_LINES]
    ]
    rest = [one for group in groups[MOST_LINES:] for one in group]
    more = [f"{sweep}: {counted(len(rest), 'more job')} ended before {_runs(rest)} began"]
    return shown + (more if rest else [])


def _runs(ended: Sequence[EarlyEnd]) -> str:
    jobs, runs = len(ended), _number_of_runs(ended)
    whose = "its" if jobs == 1 else "their"
    return f"{whose} run" if runs == jobs else f"{whose} {runs} runs"


def _number_of_runs(ended: Sequence[EarlyEnd]) -> int:
    return sum(len(one.points) for one in ended)


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
                    "runs": _number_of_runs(own),
                    "seconds": longest(own),
                    "log": str(own[0].path),
                }
            )
    return rows


def longest(ended: Sequence[EarlyEnd]) -> float | None:
    """The most seconds that one of the jobs took; None if nothing tells."""
    return max((one.told.seconds for one in ended if one.told.seconds is not None), default=None)
