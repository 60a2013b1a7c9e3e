"""A job of `htbench doctor --sbatch` as its submitter sees it: what it asks for, reports, and how it ends."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.system import atomic
from harness.system.finding import Finding, ok, problem
from sweeps.cluster import job_log
from sweeps.cluster.probed import REPORT
from sweeps.spec.resources import Resources

LOOK_SECONDS = 0.3  # between two looks at the reports
SEEN_SECONDS = 5.0  # that a file server may take to show what a job has written
LAST_LINES = 15  # of a log that are shown
SHOWN = ("partition", "qos", "constraint", "nodes", "gpus_per_node", "cpus_per_task", "mem", "runs_per_job")


@dataclass
class Probe:
    """One job, for all blocks that ask for the same.

    Attributes:
        resources: what it asks for.
        processes: of each run.
        blocks: whose jobs these are, sweep -> names.
        data: task -> fingerprint.
        on_cpu: whether all runs have `device: cpu`.
        folder: of its files.
        job: its number; empty before `sbatch` answers.
        state: as SLURM has it.
        reason: why it waits.
        missed: answers of the queue in a row without it.
    """

    resources: Resources
    processes: int = 1
    blocks: dict[str, list[str]] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    on_cpu: bool = True
    folder: Path = Path()
    job: str = ""
    state: str = "PENDING"
    reason: str = ""
    missed: int = 0

    def __str__(self) -> str:
        blocks = "; ".join(f"{name}: {_few(blocks)}" for name, blocks in self.blocks.items())
        wanted, usual = self.resources, Resources()
        told = {
            name: getattr(wanted, name) for name in SHOWN if getattr(wanted, name) != getattr(usual, name)
        }
        told |= {"processes": self.processes} if self.processes > 1 else {}
        words = ", ".join(f"{name}={value}" for name, value in told.items())
        return (blocks or "default resources") + (f" ({words})" if words else "")

    @property
    def over(self) -> bool:
        """Whether it is in the queue no more."""
        return self.missed > 1

    def reports(self) -> list[dict[str, Any]]:
        """Those of its nodes, as far as they are."""
        atomic.refresh_file_cache(self.folder)
        read = (atomic.read_json(path) for path in sorted(self.folder.glob(REPORT)))
        return [report for report in read if report is not None]

    def log(self) -> job_log.JobLog | None:
        """What its output tells."""
        return job_log.read(job_log.of_job(self.folder, self.job))

    def is_done(self) -> bool:
        """Whether all of its nodes have reported."""
        reports = self.reports()
        return len(reports) == self.resources.nodes and not any(one["at"] for one in reports)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def where(probe: Probe) -> str:
    """Where it is in the queue, and why it waits."""
    if probe.state == "PENDING":
        return f"waits ({probe.reason})" if probe.reason not in ("", "None") else "waits"
    return "runs" if probe.state == "RUNNING" else f"is {probe.state.lower()}"


def gathered(probe: Probe, patience: float) -> list[Finding]:
    """The findings of a job's nodes, and how it ended if it did not end well; `patience` as for `look`."""
    if not probe.over and not probe.is_done():
        what = f"job {probe.job} ({probe}) still {where(probe)} after {patience:.0f} s; it is cancelled"
        return [
            *_of_nodes(probe),
            problem("job", what, "`--patience` waits longer; `squeue --start` estimates"),
        ]
    until = time.monotonic() + SEEN_SECONDS
    while not probe.is_done() and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    found = _of_nodes(probe)
    return found if probe.is_done() else found + _early_end(probe)


def _of_nodes(probe: Probe) -> list[Finding]:
    found = list[Finding]()
    for report in probe.reports():
        found.append(ok("job", f"{probe.job} on node {report['node']}: {probe}"))
        found += [Finding(**one) for one in report["findings"]]
    return found


def _early_end(probe: Probe) -> list[Finding]:
    """Why a job ended without all of its reports."""
    log, reports = probe.log(), probe.reports()
    at = next((f" while it looked at {one['at']}" for one in reports if one["at"]), "")
    if log is None:
        what = f"job {probe.job} ({probe}) ended, and nothing that it wrote can be seen here"
        where = f"the store must be the same folder on all nodes, not '{probe.folder.parents[1]}' of each"
        return [problem("job", what, f"{where}; `scontrol show job {probe.job}` tells more")]
    node = f" on node {log.node}" if log.node else ""
    what = f"job {probe.job}{node} ({probe}) ended early{at}: {log.error or 'its log is empty'}"
    _show_log(probe)
    return [problem("job", what, _advice(probe.resources, log.error))]


def _advice(wanted: Resources, error: str) -> str:
    if error.startswith("setup line"):
        return "mend that line of `setup`; one that may fail gets `|| true`"
    if wanted.container and re.search(rf"apptainer|{re.escape(wanted.container)}", error):
        return "nodes need apptainer (a line of `setup` may load it) and the image of `container`"
    if wanted.interpreter in error or "execve" in error:
        return "`python` must name an interpreter that nodes have, on a shared disk"
    if "ModuleNotFoundError" in error or "ImportError" in error:
        return "install what pyproject.toml of htbench names into the Python of the job"
    return "the end of its log is above"


def _show_log(probe: Probe) -> None:
    with contextlib.suppress(OSError):
        text = job_log.of_job(probe.folder, probe.job).read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()[-LAST_LINES:]
        print(f"htbench: the end of the log of job {probe.job}:", *lines, sep="\n  ", file=sys.stderr)
