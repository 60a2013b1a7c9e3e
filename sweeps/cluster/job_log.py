"""What the log of a job tells: the node of its last start, when that began and ended, the first error."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from sweeps.cluster.job_lines import SETUP_FAILED, STARTS

MOST_BYTES = 1 << 18  # of the end of a log; one that is longer is not that of a job which ended early

_ERROR = re.compile(
    r"\berror\b|\w(Error|Exception)\b|no such|not found|no space|cannot|can't|could not|unable|denied|failed"
    r"|fatal|killed|out of memory|^htbench: (?!job )",
    re.IGNORECASE,
)
# These follow from an error that comes before them, or say nothing.
_NOISE = re.compile(
    r"Exited with exit code|Submitted job triggered an exception|^submitit (INFO|WARNING)|Job step aborted"
    r"|Terminating (StepId|job step)|STEP \S+ ON \S+ CANCELLED|^\s*$"
)
_PREFIX = re.compile(
    r"^(slurmstepd(-\S+)?: |srun: |slurmd\S*: |error: |htbench: (job \S+ on node \S+: )?"
    r"|submitit \w+ \(.*?\) - |\S+: task \d+: )+"
    r"|^\S*/slurm_script: (line \d+: )?"
)
_CANCELLED = re.compile(r"\*\*\* (JOB|STEP) \S+ ON \S+ CANCELLED AT \S+(?!\S)(?! DUE TO)")
NO_TASK = "what they were to do was missing beside their log; the next `submit` submits them again"
_TRACEBACK = "Traceback (most recent call last):"
_OF_A_TASK = re.compile(r"^srun: error: ([\w.-]+): tasks? [\d,-]+: ", re.MULTILINE)


@dataclass(frozen=True)
class JobLog:
    """The last start of a job.

    Attributes:
        node: where, as SLURM names it; empty if the log does not tell.
        began: seconds since 1970, by the node's clock; None if the log does not tell.
        ended: when the log was last written to, by the file server's clock.
        error: the first error, or else the last line; empty if nothing was printed.
        cancelled: whether a person cancelled it.
    """

    node: str
    began: float | None
    ended: float
    error: str
    cancelled: bool

    @property
    def seconds(self) -> float | None:
        """From the start to the last line."""
        return None if self.began is None else max(0.0, self.ended - self.began)


def of_job(folder: Path, job: str) -> Path:
    """Where a job prints to, in the folder of its submission."""
    return folder / f"{job}_0_log.out"


def of_run(folder: Path, job: str, point: str) -> Path:
    """Where a run prints to whose job has several."""
    return folder / f"{job}_{re.sub('[^a-zA-Z0-9.=-]+', '_', point)}_log.out"


def read(path: Path) -> JobLog | None:
    """Read a log; None if there is none."""
    try:
        with path.open("rb") as file:
            ended = path.stat().st_mtime
            with contextlib.suppress(OSError):  # it is shorter
                file.seek(-MOST_BYTES, 2)
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return None
    node, began, own = _last_start(lines)
    text = "\n".join(own)
    error = first_error(own)
    named = _OF_A_TASK.search(text)  # in a job of several nodes, one other than the first may have failed
    return JobLog(named[1] if named else node, began, ended, error, _CANCELLED.search(text) is not None)


def _last_start(lines: list[str]) -> tuple[str, float | None, list[str]]:
    """The node, the time and the lines of the last start: a job that is queued again goes on with its log."""
    for number in range(len(lines) - 1, -1, -1):
        if found := STARTS.match(lines[number]):
            return found[2], float(found[3]), lines[number + 1 :]
    return "", None, lines


def first_error(lines: list[str]) -> str:
    """The first error in the lines of a log, without the words that come before it; else the last line."""
    telling = [line for line in lines if not _NOISE.search(line)]
    for number, line in enumerate(telling):
        if found := SETUP_FAILED.match(line):
            return _with_words_before(found[3], telling[:number])
    for number, line in enumerate(telling):
        if line.startswith(_TRACEBACK):
            line = next((after for after in telling[number + 1 :] if not after.startswith(" ")), line)
        if _ERROR.search(line) or _TRACEBACK in line:
            return _plain(line)
    rest = telling or [line for line in lines if line.strip()]
    return _plain(rest[-1]) if rest else ""


def _with_words_before(what: str, before: list[str]) -> str:
    """A line of setup that failed, and what it printed last: often the reason."""
    return f"{what} ({_plain(before[-1])})" if before else what


def _plain(line: str) -> str:
    return _PREFIX.sub("", line.strip()).strip() or line.strip()
