"""The log of a job: the lines that its script writes there, and what the log tells when it is read.

htbench: job 12_3 on node n2 starts at 1764000000
htbench: job 12_3 on node n2: setup line 2 exited with 3: module load cuda
htbench: job 12_3 on node n2: could not be queued again: scontrol is missing; the next ...
"""

import contextlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# --- written ---

STARTS = re.compile(r"^htbench: job (\S+) on node (\S+) starts at (\d+)$")
SETUP_FAILED = re.compile(r"^htbench: job (\S+) on node (\S+): (setup line -?\d+ exited with \d+: .*)$")

SCRIPT_REQUEUES = "HTBENCH_SCRIPT_REQUEUES"  # set by a script that queues its job again
EXIT_AGAIN = 200  # above 128 + signal: `srun` returns the highest status of its processes

_ID = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
_START = (
    f'htbench_job="job {_ID} on node ${{SLURMD_NODENAME:-$HOSTNAME}}"',
    'echo "htbench: $htbench_job starts at $(date +%s)"',
)
# Nothing can be put between the lines of `setup`: they may be the parts of a loop or of a here-document. So
# traps watch them. ERR follows the rules of `set -e`: a condition may fail, and so may what stands before
# `||`. A command inside a function or a sourced file may fail, too, the call as a whole may not. In the trap
# of EXIT, LINENO is 1, so DEBUG keeps the line.
_WATCH = (
    'htbench_failed() { [ -z "$htbench_setup" ] || [ "${FUNCNAME[1]}" != main ] || exit "$1"; }',
    'htbench_ended() { [ -z "$htbench_setup" ] || echo "htbench: $htbench_job: setup line'
    ' $((htbench_line - htbench_setup)) exited with $1: $(sed -n "${htbench_line}p" "$0")"; }',
    """trap '[ -n "${FUNCNAME[0]:-}" ] || [ "$LINENO" -le "${htbench_setup:-0}" ]"""
    """ || htbench_line=$LINENO' DEBUG""",
    "trap 'htbench_failed $?' ERR",
    "trap 'htbench_ended $?' EXIT",
)


# In most containers there is no `scontrol`. There a run that was told to stop ends with EXIT_AGAIN, and the
# script looks whether it was told to make room: a job that was cancelled runs no more.
AFTERWARDS = (
    "htbench_status=$?",
    f"if [ $htbench_status = {EXIT_AGAIN} ]; then",
    "  htbench_why=",
    "  if ! command -v scontrol > /dev/null; then",
    "    htbench_why='scontrol is missing'",
    f'  elif scontrol show job -o "{_ID}" | grep -q JobState=RUNNING; then',
    f'    scontrol requeue "{_ID}" || htbench_why="scontrol requeue exited with $?"',
    "  fi",
    '  [ -z "$htbench_why" ] || echo "htbench: $htbench_job: could not be queued again: $htbench_why;'
    ' the next \\`htbench sweep submit\\` does it"',
    "fi",
    "exit $htbench_status",
)


def watched(setup: Sequence[str]) -> list[str]:
    """The lines of `setup`, such that the log names the node, and a line that fails ends the job.

    Options of `sbatch` stay at the top.
    """
    lines = "\n".join(setup).splitlines()
    head = list(itertools.takewhile(lambda line: not line.strip() or line.startswith("#"), lines))
    body = lines[len(head) :]
    if not body:
        return [*head, *_START]
    return [*head, *_START, *_WATCH, f"htbench_setup=$((LINENO - {len(head)}))", *body, "htbench_setup="]


# --- read ---

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
NO_TASK = "what they were to do was missing beside their log; the next `submit` submits them again"
_TRACEBACK = "Traceback (most recent call last):"
_OF_A_TASK = re.compile(r"^srun: error: ([\w.-]+): tasks? [\d,-]+: ", re.MULTILINE)


@dataclass(frozen=True)
class JobLog:
    """The last start of a job.

    Attributes:
        node: where, as SLURM names it; empty if the log does not tell.
        error: the first error, or else the last line; empty if nothing was printed.
    """

    node: str
    error: str


def of_job(folder: Path, job: str) -> Path:
    """Where a job prints to, in the folder of its submission."""
    return folder / f"{job}_0_log.out"


def read(path: Path) -> JobLog | None:
    """Read a log; None if there is none."""
    try:
        with path.open("rb") as file:
            with contextlib.suppress(OSError):  # it is shorter
                file.seek(-MOST_BYTES, 2)
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return None
    node, own = _last_start(lines)
    named = _OF_A_TASK.search("\n".join(own))  # of several nodes, one other than the first may have failed
    return JobLog(named[1] if named else node, first_error(own))


def _last_start(lines: list[str]) -> tuple[str, list[str]]:
    """The node and the lines of the last start: a job that is queued again goes on with its log."""
    for number in range(len(lines) - 1, -1, -1):
        if found := STARTS.match(lines[number]):
            return found[2], lines[number + 1 :]
    return "", lines


def first_error(lines: list[str]) -> str:
    """The first error in the lines of a log, without the words that come before it; else the last line."""
    telling = [line for line in lines if not _NOISE.search(line)]
    for number, line in enumerate(telling):
        if found := SETUP_FAILED.match(line):
            # What it printed last is often the reason.
            return f"{found[3]} ({_plain(telling[number - 1])})" if number else found[3]
    for number, line in enumerate(telling):
        if line.startswith(_TRACEBACK):
            line = next((after for after in telling[number + 1 :] if not after.startswith(" ")), line)
        if _ERROR.search(line) or _TRACEBACK in line:
            return _plain(line)
    rest = telling or [line for line in lines if line.strip()]
    return _plain(rest[-1]) if rest else ""


def _plain(line: str) -> str:
    return _PREFIX.sub("", line.strip()).strip() or line.strip()
