"""Lines that a job's script writes into its log: the shell that writes them, the patterns that find them.

htbench: job 12_3 on node n2 starts at 1764000000
htbench: job 12_3 on node n2: setup line 2 exited with 3: module load cuda
htbench: job 12_3 on node n2: could not be queued again: scontrol is missing; the next ...
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

STARTS = re.compile(r"^htbench: job (\S+) on node (\S+) starts at (\d+)$")
SETUP_FAILED = re.compile(r"^htbench: job (\S+) on node (\S+): (setup line -?\d+ exited with \d+: .*)$")

SCRIPT_REQUEUES = "HTBENCH_SCRIPT_REQUEUES"
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


def start(job: str, node: str, seconds: float) -> str:
    """The line that `STARTS` finds, as Python writes it; `seconds` since 1970."""
    return f"htbench: job {job} on node {node} starts at {seconds:.0f}"


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
