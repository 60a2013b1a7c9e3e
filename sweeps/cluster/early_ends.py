"""Jobs that ended before their run began or failed within its first minute, and the nodes that do this.

A job with several runs ended before they began if none of them did, and failed if each that began did so
within its first minute. It counts once.

Only logs, attempts and, where a node could not even write a log, `scontrol` are asked: `sacct` needs a
database that not every site has.
"""

import datetime
import functools
import itertools
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.show.note import Note
from harness.store import Reason, Store, submissions
from harness.store.points import Point, filled
from harness.store.submissions import Submission
from harness.system import slurm
from harness.system.slurm import SlurmError
from sweeps.cluster import job_log
from sweeps.cluster.job_log import JobLog
from sweeps.cluster.queue import log_folder

MOST_JOBS = 300  # the newest; more logs take too long to read
MOST_QUESTIONS = 3  # arrays that SLURM is asked about, as their jobs have no logs
MOST_LINES = 3
MOST_NODES = 5  # named on a line
FIRST_MINUTE = 60.0
# A node that ends jobs at once is free for the next one.
LEAST = 3  # jobs that must have ended early on a node before it is named
RECENT = 24 * 3600.0  # seconds; the node may have been repaired since
MOST_OTHERS = 300  # jobs of the same arrays whose nodes are looked up
# Outcomes of an attempt. None: its process died. A run that was stopped for a reason, such as a node without
# the GPUs that it promised, has a message; one that was asked to stop has none.
_FAILURES = (None, Reason.ERROR, Reason.OOM, Reason.STOPPED)


@dataclass(frozen=True)
class EarlyEnd:
    """A job that ended early.

    Attributes:
        job: its id.
        array: the submission that it belongs to.
        points: the ids of its points without a result for which no later job was submitted.
        begun: whether one of its runs had begun.
        log: node, times and error. The node is that of the owner of the run if the log does not name one.
        path: of the log that tells the error.
    """

    job: str
    array: Submission
    points: tuple[str, ...]
    begun: bool
    log: JobLog
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
    ended, asked = list[EarlyEnd](), list[str]()
    jobs = list(_jobs(store.root, sweep, unfinished))
    last = {point: job for _, job, share in reversed(jobs) for point in share}
    for array, job, share in [shared for shared in jobs if shared[1] not in queued][:MOST_JOBS]:
        path = log_path(store.root, array, job)
        log = job_log.read(path) or _without_folder(path)
        if log is None and (array.job in asked or len(asked) < MOST_QUESTIONS):
            asked += [array.job] if array.job not in asked else []
            log = _shown(job)
        runs = [filled(store.root, known[point]) for point in share if point in known]
        if end := _end(store, array, job, runs, log):
            latest = tuple(point for point in share if point in unfinished and last[point] == job)
            ended.append(EarlyEnd(job, array, latest, *end))
    return ended


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
    return job_log.of_job(log_folder(root, array), job)


def log_paths(root: Path, array: Submission, job: str, point: str) -> list[Path]:
    """Where a run's output may be: in a log of its own, if its job has several, and in that of the job."""
    path = log_path(root, array, job)
    return [job_log.of_run(path.parent, job, point), path] if array.runs_per_job > 1 else [path]


def _end(
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
            failure = _failure(*attempt)
            if failure is None:
                return None
            began.append((failure, point))
    path = log_path(store.root, array, job)
    if began:
        first, point = min(began, key=lambda pair: pair[0].ended)
        place = next((log for log in log_paths(store.root, array, job, point.id) if log.exists()), path)
        read = job_log.read(place) if place != path else log
        error, ended = first.error or (read.error if read else ""), max(run.ended for run, _ in began)
        return True, replace(log or first, ended=ended, error=error), place
    # The job itself may have nothing to say where the processes of its runs could not begin.
    for place in (log_paths(store.root, array, job, point.id)[0] for point in points):
        if place != path and (read := job_log.read(place)) and read.error:
            return False, replace(log or read, error=read.error), place
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
    reason = outcome.get("reason")
    if (
        reason not in _FAILURES
        or (reason == Reason.STOPPED and not message)
        or began is None
        or ended is None
    ):
        return None
    node = str(attempt["owner"].get("host", "")).partition(".")[0]
    return JobLog(node, began, ended, message) if ended - began < FIRST_MINUTE else None


# --- jobs without a log ---


def _without_folder(path: Path) -> JobLog | None:
    """Of a job whose folder somebody has removed: what it was to do was there, too."""
    logs = path.parent.parent
    if path.parent.is_dir() or not logs.is_dir():
        return None
    error = f"'{path.parent}', where they look for what to do, is gone; the next `submit` writes it anew"
    return JobLog("", None, time.time(), error)


def _shown(job: str) -> JobLog | None:
    """What SLURM tells of a job that could not write its log; it forgets them after some minutes."""
    row = _rows(job.partition("_")[0], int(time.monotonic() // slurm.FRESH)).get(job, {})
    if row.get("JobState") not in ("FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"):
        return None
    if row.get("BatchHost", "(null)") == "(null)":
        return None
    began, ended = (_time(row.get(name, "")) for name in ("StartTime", "EndTime"))
    error = f"no log was written ({row['JobState']}, exit code {row.get('ExitCode', 'unknown')})"
    return JobLog(row["BatchHost"], began, ended or time.time(), error)


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


# --- by error and node ---


@dataclass(frozen=True)
class Early:
    """Jobs that ended early on one node for one reason.

    Attributes:
        reason: the error of the newest.
        node: its name in SLURM; empty if nothing tells.
        jobs: their ids, the newest first.
        runs: how many of their runs wait for another job.
        seconds: the most that one of them took; None if nothing tells.
        log: that of the newest.
        _error: the number of the error, as errors that differ in numbers and nodes only are one.
    """

    reason: str
    node: str
    jobs: list[str]
    runs: int
    seconds: float | None
    log: str
    _error: int = field(default=0, compare=False)


def grouped(ended: Sequence[EarlyEnd]) -> list[Early]:
    """The jobs by their errors, the most frequent first, and their nodes."""
    errors: dict[str, list[EarlyEnd]] = {}
    for job in ended:
        error = job.log.error.replace(job.log.node or "NODE", "NODE")
        errors.setdefault(re.sub(r"\d+", "N", error), []).append(job)
    rows = []
    for number, group in enumerate(sorted(errors.values(), key=len, reverse=True)):
        for node in dict.fromkeys(job.log.node for job in group):
            there = [job for job in group if job.log.node == node]
            jobs, runs = [job.job for job in there], sum(len(job.points) for job in there)
            reason, log = there[0].log.error, str(there[0].path)
            rows.append(Early(reason, node, jobs, runs, _longest(there), log, number))
    return rows


def notes(sweep: str, ended: Sequence[Early]) -> list[Note]:
    """A note for each error, and one for what is left."""
    errors = [list(rows) for _, rows in itertools.groupby(ended, lambda row: row._error)]
    shown = []
    for rows in errors[:MOST_LINES]:
        counts = sorted(((len(row.jobs), row.node) for row in rows if row.node), key=lambda c: -c[0])
        nodes = [f"{node} ({n})" if len(rows) > 1 else node for n, node in counts[:MOST_NODES]]
        nodes += ["..."] if len(counts) > MOST_NODES else []
        about = {"error": rows[0].reason, "nodes": nodes, "log": rows[0].log}
        shown.append(Note("jobs_ended_early", sweep=sweep, **_numbers(rows), **about))
    rest = [row for rows in errors[MOST_LINES:] for row in rows]
    return shown + ([Note("more_jobs_ended_early", sweep=sweep, **_numbers(rest))] if rest else [])


def _numbers(rows: Sequence[Early]) -> Mapping[str, int]:
    jobs, runs = sum(len(row.jobs) for row in rows), sum(row.runs for row in rows)
    return {"jobs": jobs, "runs": runs, "several": runs if runs != jobs else 0}


def _longest(ended: Sequence[EarlyEnd]) -> float | None:
    return max((job.log.seconds for job in ended if job.log.seconds is not None), default=None)


# --- nodes ---


@dataclass(frozen=True)
class FailingNode:
    """A node that ends jobs early.

    Attributes:
        node: its name in SLURM.
        early: how many jobs ended there before their run began, or failed in its first minute.
        jobs: how many of the same arrays were started there.
        seconds: the most that one of the early ones took; None if nothing tells.
        reason: the most frequent error.
    """

    node: str
    early: int
    jobs: int
    seconds: float | None
    reason: str

    def note(self, sweep: str, advice: Note) -> Note:
        """For people."""
        return Note("node_fails", sweep=sweep, **vars(self), advice=advice)


def failing_nodes(root: Path, ended: Sequence[EarlyEnd], queued: Collection[str]) -> list[FailingNode]:
    """The nodes that fail, by the jobs of the last day; the worst first.

    A node fails if at least LEAST jobs, and at least half of those that it was given, ended early there. But
    if no other node does better, the jobs themselves are the reason, and no node is named.

    Args:
        root: the store.
        ended: the jobs that ended early.
        queued: the ids of all jobs in the queue.
    """
    recent = [job for job in ended if not job.log.cancelled and job.log.ended > time.time() - RECENT]
    early: dict[str, list[EarlyEnd]] = {}
    for job in recent:
        if job.log.node:
            early.setdefault(job.log.node, []).append(job)
    if all(len(jobs) < LEAST for jobs in early.values()):
        return []
    others = _others(root, recent, {job.job for job in ended}, queued)
    if not any(n > len(early.get(node, ())) for node, n in others.items()):
        return []
    bad = [node for node, jobs in early.items() if len(jobs) >= max(LEAST, others[node])]
    rows = []
    for node in sorted(bad, key=lambda node: (-len(early[node]), node)):
        jobs, seconds = early[node], _longest(early[node])
        rows.append(FailingNode(node, len(jobs), len(jobs) + others[node], seconds, grouped(jobs)[0].reason))
    return rows


def _others(
    root: Path, recent: Sequence[EarlyEnd], early: Collection[str], queued: Collection[str]
) -> Counter[str]:
    """How many other jobs of the same arrays started on each node, without those that may still end early."""
    arrays = {job.array.word: job.array for job in recent}.values()
    jobs = [(array, job) for array in arrays for job in array.jobs() if job not in early]
    counts = Counter[str]()
    for array, job in jobs[:MOST_OTHERS]:
        log = job_log.read(log_path(root, array, job))
        young = job in queued and time.time() - (log and log.began or 0.0) < FIRST_MINUTE
        if log is not None and log.node and not young:
            counts[log.node] += 1
    return counts
