"""Stand-ins for `sbatch`, `squeue`, `scancel` and `scontrol` on the PATH, with a queue in a file.

What the code relies on they do as SLURM does: `tests/helpers/slurm_contract.py` holds both against one list.
"""

import contextlib
import io
import json
import os
import runpy
import sys
from pathlib import Path

from htbench.harness.store.owner import current_user
from htbench.harness.system import slurm
from htbench.harness.system.squeue import COLUMNS
from htbench.sweeps.cluster import sbatch
from tests.helpers.squeue import HEAD, table

# What comes after the options is the command; some of them have a word of their own.
SRUN = """
while :; do
  case $1 in
    --output|--cpus-per-task) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
exec "$@" """
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")


class FakeSlurm:
    """A queue that tests look at and change. What is submitted waits until a test says otherwise."""

    def __init__(self, place, monkeypatch):
        self.place = place
        place.mkdir()
        self._write({})
        (place / "number").write_text("7")
        widths = [width for _, width in COLUMNS]
        told = {"user": current_user(), "widths": widths, "head": [*HEAD, HEAD[0]]}
        (place / "squeue.json").write_text(json.dumps(told))
        program = Path(__file__).with_name("fake_slurm_command.py")
        for name in COMMANDS:
            (place / name).write_text(f'#!/bin/sh\nexec {sys.executable} -S {program} {place} {name} "$@"\n')
            (place / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        monkeypatch.setattr(slurm, "_remembered", {})
        slurm.config.cache_clear()

    def with_node(self, srun=SRUN):
        """From now on jobs begin at once: their scripts run, with this `srun`."""
        node = self.place / "node"
        node.mkdir()
        answers = {"srun": srun, "scontrol": "echo JobState=RUNNING", "squeue": f"echo '{table()}'"}
        for name, text in answers.items():
            (node / name).write_text(f"#!/bin/sh\n{text}\n")
            (node / name).chmod(0o755)

    def in_process(self, monkeypatch):
        """From now on its commands run in this process, which is quicker and shows the same."""
        program = str(Path(__file__).with_name("fake_slurm_command.py"))

        def ask(*command, input_text="", **_):
            said = io.StringIO()
            with monkeypatch.context() as own, contextlib.redirect_stdout(said):
                own.setattr(sys, "argv", [program, str(self.place), *command])
                own.setattr(sys, "stdin", io.StringIO(input_text))
                try:
                    runpy.run_path(program)
                except SystemExit as end:
                    return False, str(end)
            return True, said.getvalue().strip("\n")

        monkeypatch.setattr(slurm, "ask", ask)
        monkeypatch.setattr(sbatch, "ask", ask)

    def jobs(self):
        """The states of the jobs in the queue."""
        return {id: state for id, (state, *_) in self._read().items()}

    def change(self, *ids, state):
        """Let jobs begin, or leave the queue (state: empty)."""
        jobs = self._read()
        for id in ids:
            jobs[id][0] = state
        self._write({id: job for id, job in jobs.items() if job[0]})

    def called(self, command):
        """The calls of a command."""
        lines = (self.place / "called").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{command} ")]

    def _read(self):
        return json.loads((self.place / "jobs.json").read_text())

    def _write(self, jobs):
        (self.place / "jobs.json").write_text(json.dumps(jobs))
