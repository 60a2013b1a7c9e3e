"""`htbench doctor --sbatch`: a short job that looks at what the jobs of a sweep would meet on their nodes.

Its files are in a temporary folder of the store, on which this process holds a lock while it waits: a folder
without a holder is that of a process that died. Job and folder share a name, which is no submission's.
"""

import contextlib
import fcntl
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import tasks
from harness.config import RunConfig
from harness.errors import UsageError
from harness.show.note import Note
from harness.show.numbers import plain
from harness.show.progress import Progress
from harness.store.points import submitting
from harness.system import atomic, slurm
from harness.system.finding import Finding, ok, problem
from harness.system.folders import make_folder
from sweeps.cluster import job_log, sbatch, snapshot
from sweeps.cluster.job_log import JobLog
from sweeps.cluster.probed import ASKED, HELD, REPORT, Asked, seconds_ahead
from sweeps.cluster.sbatch import RefusedError, UnsureError
from sweeps.cluster.snapshot import Snapshot
from sweeps.plan.planned import block_of, search_points
from sweeps.spec import sweep_file
from sweeps.spec.resources import Resources

NAME = "htbench-doctor"  # of jobs and folders, before a random word
MINUTES = 5  # a job's time limit; its work takes a minute where the file server takes long to give torch
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
        asked = self.resources.asked(self.processes)
        told = {name: asked[name] for name in (*SHOWN, "processes") if name in asked}
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


def look(root: Path, arguments: Sequence[str], patience: float) -> list[Finding]:
    """What jobs find on their nodes.

    Args:
        root: the store.
        arguments: sweep files and `key=value`; none: a job of default resources, with all tasks of htbench.
        patience: seconds that jobs may wait in the queue.

    Raises:
        UsageError: there is no SLURM, the store is not writable, or the file is wrong.
    """
    slurm.require("sbatch")
    probes, configs = _probes(root, arguments)
    root = root.resolve()
    make_folder(root)
    name = f"{NAME}-{uuid.uuid4().hex[:8]}"
    folder = root / f".{name}{atomic.TEMPORARY_SUFFIX}"
    with contextlib.ExitStack() as stack:
        with submitting(root):
            _clear(root)
            code = snapshot.take(root, configs)
            folder.mkdir()
            stack.callback(_leave, folder, name, probes)
            stack.enter_context(atomic.locked(folder / HELD))
        found = [one for probe in probes for one in _submit(root, code, folder, name, probe)]
        submitted = [probe for probe in probes if probe.job]
        _wait(submitted, patience)
        return found + [one for probe in submitted for one in gathered(probe, patience)]


def _probes(root: Path, arguments: Sequence[str]) -> tuple[list[Probe], list[RunConfig]]:
    """A probe for each kind of job, and the configs whose code goes into the snapshot."""
    settings = [word for word in arguments if "=" in word]
    names = [word for word in arguments if "=" not in word]
    if settings and not names:
        raise UsageError(f"'{settings[0]}' is a setting of a sweep; name the sweep file, too.")
    if not names:
        return [Probe(_as_probe(Resources()), data=_fingerprints(tasks.TASKS), on_cpu=False)], []
    probes, configs = dict[tuple[Resources, int], Probe](), list[RunConfig]()
    for spec in sweep_file.load_all(names, settings, root):
        for one in search_points(spec):
            kind = _as_probe(block_of(spec, one.point).resources), one.config.processes
            probe = probes.setdefault(kind, Probe(*kind))
            blocks = probe.blocks.setdefault(spec.name, [])
            blocks += [one.point.block] if one.point.block not in blocks else []
            probe.data[one.config.task] = one.config.data_fingerprint
            probe.on_cpu &= one.config.device == "cpu"
            configs.append(one.config)
    return list(probes.values()), configs


def _as_probe(wanted: Resources) -> Resources:
    """The same resources for a few minutes, without what makes no difference on the node."""
    usual = Resources()
    other = {
        name: getattr(usual, name) for name in ("array_parallelism", "submit_limit", "mail_type", "mail_user")
    }
    return replace(wanted, timeout_min=min(MINUTES, wanted.timeout_min), signal_delay_s=1, **other)


def _fingerprints(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        with contextlib.suppress(UsageError, OSError):  # of what is not here jobs can't be asked
            found[name] = tasks.fingerprint(name)
    return found


# --- its life ---


def _submit(root: Path, code: Snapshot, folder: Path, name: str, probe: Probe) -> list[Finding]:
    """Hand a job to SLURM; a problem if it does not take it."""
    from sweeps.cluster import job_array  # imports submitit

    probe.folder = Path(tempfile.mkdtemp(prefix="job-", dir=folder))
    wanted, word = probe.resources, uuid.uuid4().hex
    processes = 1 if wanted.runs_per_job > 1 else probe.processes // wanted.nodes
    here, ahead = socket.gethostname(), seconds_ahead(probe.folder)
    places = word, str(root), str(code.folder), here, ahead
    asked = Asked(*places, processes, wanted.contained, probe.on_cpu, probe.data)
    atomic.write_json(probe.folder / ASKED, plain(asked))
    command = ("-m", "sweeps.cluster.probed", str(probe.folder), word)
    # Who waits for it would not know why it starts again.
    where = root, code, name, probe.folder
    text = job_array.script(*where, wanted, probe.processes, *command, requeue=False)
    try:
        probe.job = sbatch.submit(text)
    except RefusedError as error:
        what = Note("probe_refused", kind=str(probe), why=str(error))
        return [problem("job", what, Note("change_resources"))]
    except UnsureError as error:
        what = Note("probe_without_number", kind=str(probe), why=str(error))
        return [problem("job", what, Note("try_later"))]
    print(f"htbench: job {probe.job} looks at what jobs would see: {probe}", file=sys.stderr, flush=True)
    return []


def _wait(probes: Sequence[Probe], patience: float) -> None:
    """Wait until all jobs have reported or ended, or have waited for too long."""
    began = asked = time.monotonic()
    until, running, shown = began + patience, False, ""
    with Progress(None, "s") as progress:
        while left := [probe for probe in probes if not probe.over and not probe.is_done()]:
            now = time.monotonic()
            if now - asked >= min(15.0, 1.0 + (now - began) / 4):  # sites limit the number of requests
                asked = now
                _ask(left)
                if not running and any(probe.state == "RUNNING" for probe in left):
                    running, until = True, max(until, now + 60.0 * (MINUTES + 1))  # SLURM ends it before
            if now >= until:
                return
            told = ", ".join(f"job {probe.job} {where(probe)}" for probe in left)
            if told != shown:
                progress.begin(f"htbench: {told}")
            shown = told
            progress.to(now - began)
            time.sleep(LOOK_SECONDS)


def _ask(probes: Sequence[Probe]) -> None:
    """Look where jobs are in the queue; without an answer all stays as it was."""
    with contextlib.suppress(slurm.SlurmError):
        jobs = slurm.queue()
        for probe in probes:
            job = jobs.get(probe.job)
            probe.missed = 0 if job else probe.missed + 1
            if job is not None:
                probe.state, probe.reason = job.state, job.reason


def _leave(folder: Path, name: str, probes: Sequence[Probe]) -> None:
    """Cancel what is left of the jobs, by their name as a number may be lacking; remove their files."""
    if not all(probe.job and (probe.over or probe.is_done()) for probe in probes):
        try:
            _cancel(name)
        except slurm.SlurmError as error:
            print(f"htbench: jobs may be left, `scancel --name={name}` ends them: {error}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)


def _cancel(name: str) -> None:
    slurm.call("scancel", "--quiet", f"--name={name}")


def _clear(root: Path) -> None:
    """Remove what processes left that died while they waited, and cancel their jobs."""
    for folder in root.glob(f".{NAME}-*{atomic.TEMPORARY_SUFFIX}"):
        with contextlib.suppress(OSError), open(folder / HELD, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(slurm.SlurmError):
                _cancel(folder.name[1:].removesuffix(atomic.TEMPORARY_SUFFIX))
            shutil.rmtree(folder, ignore_errors=True)


# --- what it has found ---


def gathered(probe: Probe, patience: float) -> list[Finding]:
    """The findings of a job's nodes, and how it ended if it did not end well; `patience` as for `look`."""
    until = time.monotonic() + SEEN_SECONDS
    while probe.over and not probe.is_done() and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    seen = list[Finding]()
    for report in probe.reports():
        seen.append(ok("job", Note("probe_on_node", job=probe.job, node=report["node"], kind=str(probe))))
        seen += [Finding(**one) for one in report["findings"]]
    if probe.is_done():
        return seen
    about = {"job": probe.job, "kind": str(probe)}
    if not probe.over:
        what = Note("probe_is_late", **about, where=where(probe), seconds=patience)
        return [*seen, problem("job", what, Note("be_patient"))]
    log = job_log.read(job_log.of_job(probe.folder, probe.job))
    if log is None:
        advice = Note("share_the_store", root=probe.folder.parents[1], job=probe.job)
        return [*seen, problem("job", Note("probe_left_nothing", **about), advice)]
    at = next((report["at"] for report in probe.reports() if report["at"]), "")
    what = Note("probe_ended_early", **about, node=log.node, at=at, error=log.error or "its log is empty")
    with contextlib.suppress(OSError):
        text = job_log.of_job(probe.folder, probe.job).read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()[-LAST_LINES:]
        print(f"htbench: the end of the log of job {probe.job}:", *lines, sep="\n  ", file=sys.stderr)
    return [*seen, problem("job", what, _advice(probe.resources, log))]


def _advice(wanted: Resources, log: JobLog) -> Note:
    error = log.error  # of other programs
    if log.failed_setup:
        return Note("mend_setup")
    if wanted.container and ("apptainer" in error or wanted.container in error):
        return Note("mend_container")
    if wanted.interpreter in error or "execve" in error:
        return Note("mend_python")
    if "ModuleNotFoundError" in error or "ImportError" in error:
        return Note("install_what_jobs_need")
    return Note("read_the_log")
