"""The log of a job: the lines that its script writes there, and the reader of them.

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


# In most containers there is no `scontrol`. There a run that a signal stops ends with EXIT_AGAIN, and the
# script asks whether the job still runs, as one that makes room does: a cancelled job does not.
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


def watch_setup(setup: Sequence[str]) -> list[str]:
    """The lines of `setup`, among others: the log names the node, and a line that fails ends the job.

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

# These follow from an error, or say nothing.
_NOISE = re.compile(
    r"Exited with exit code|Job step aborted|Terminating (StepId|job step)|STEP \S+ ON \S+ CANCELLED|^\s*$"
)
_PREFIX = re.compile(
    r"^(slurmstepd(-\S+)?: |srun: |slurmd\S*: |error: |htbench: (job \S+ on node \S+: )?"
    r"|\S+: task \d+: )+"
    r"|^\S*/slurm_script: (line \d+: )?"
)
NO_TASK = "what they were to do was missing beside their log; the next `submit` submits them again"
_FAILED_TASK = re.compile(r"^srun: error: ([\w.-]+): tasks? [\d,-]+: ", re.MULTILINE)


@dataclass(frozen=True)
class JobLog:
    """The last start of a job.

    Attributes:
        node: where, as SLURM names it; empty if the log does not have it.
        error: the last line that says something; empty if nothing was printed.
    """

    node: str
    error: str


def log_path(folder: Path, job: str) -> Path:
    """The log of a job, in the folder of its submission."""
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
    # A job that is queued again goes on with its log: the lines of its last start count.
    starts = [(number, match) for number, line in enumerate(lines) if (match := STARTS.match(line))]
    node, lines = (starts[-1][1][2], lines[starts[-1][0] + 1 :]) if starts else ("", lines)
    failed = _FAILED_TASK.search("\n".join(lines))  # of several nodes, one other than the first may fail
    return JobLog(failed[1] if failed else node, find_error(lines))


def find_error(lines: list[str]) -> str:
    """The last line of a log that says something, without the words that come before its message."""
    messages = [line for line in lines if not _NOISE.search(line)] or [line for line in lines if line.strip()]
    *before, last = messages or [""]
    if match := SETUP_FAILED.match(last):  # what it printed last is often the reason
        return match[3] + (f" ({_strip_prefix(before[-1])})" if before else "")
    return _strip_prefix(last)


def _strip_prefix(line: str) -> str:
    return _PREFIX.sub("", line.strip()).strip() or line.strip()
