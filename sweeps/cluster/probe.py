"""`htbench doctor --sbatch`: a short job that looks at what the jobs of a sweep would meet on their nodes.

Its files are in a temporary folder of the store, on which this process holds a lock while it waits: a folder
without a holder is that of a process that died. Job and folder share a name, which is no submission's.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from harness import tasks
from harness.config import RunConfig
from harness.display import shortened, terminal_width
from harness.errors import UsageError
from harness.store.points import submitting
from harness.system import atomic, slurm
from harness.system.finding import Finding, problem
from harness.system.folders import make_folder
from sweeps.cluster import sbatch, snapshot
from sweeps.cluster.probe_job import LOOK_SECONDS, Probe, gathered, where
from sweeps.cluster.probed import ASKED, HELD, Asked, seconds_ahead
from sweeps.cluster.sbatch import RefusedError, UnsureError
from sweeps.cluster.snapshot import Snapshot
from sweeps.plan.planned import block_of, search_points
from sweeps.spec import given
from sweeps.spec.resources import Resources

NAME = "htbench-doctor"  # of jobs and folders, before a random word
MINUTES = 5  # a job's time limit; its work takes a minute where the file server takes long to give torch


def look(root: Path, words: Sequence[str], patience: float) -> list[Finding]:
    """What jobs find on their nodes.

    Args:
        root: the store.
        words: sweep files and `key=value`; none: a job of default resources, with all tasks of htbench.
        patience: seconds that jobs may wait in the queue.

    Raises:
        UsageError: there is no SLURM, the store is not writable, or the file is wrong.
    """
    slurm.require("sbatch")
    probes, configs = _probes(root, words)
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
        with contextlib.closing(_Screen()) as screen:
            _wait(submitted, patience, screen)
        return found + [one for probe in submitted for one in gathered(probe, patience)]


def _probes(root: Path, words: Sequence[str]) -> tuple[list[Probe], list[RunConfig]]:
    """A probe for each kind of job, and the configs whose code goes into the snapshot."""
    settings = [word for word in words if "=" in word]
    names = [word for word in words if "=" not in word]
    if settings and not names:
        raise UsageError(f"'{settings[0]}' is a setting of a sweep; name the sweep file, too.")
    if not names:
        return [Probe(_as_probe(Resources()), data=_fingerprints(tasks.TASKS), on_cpu=False)], []
    probes, configs = dict[tuple[Resources, int], Probe](), list[RunConfig]()
    for spec in given.load_all(names, settings, root):
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
    minutes = min(MINUTES, wanted.timeout_min)
    usual = Resources()
    return replace(
        wanted,
        timeout_min=minutes,
        signal_delay_s=1,
        array_parallelism=usual.array_parallelism,
        submit_limit=None,
        mail_type=None,
        mail_user=None,
    )


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
    asked = Asked(
        word,
        str(root),
        str(code.folder),
        socket.gethostname(),
        seconds_ahead(probe.folder),
        processes,
        wanted.contained,
        probe.on_cpu,
        probe.data,
    )
    atomic.write_json(probe.folder / ASKED, asdict(asked))
    words = ("-m", "sweeps.cluster.probed", str(probe.folder), word)
    text = job_array.text_of_probe(root, code, name, probe.folder, wanted, probe.processes, *words)
    try:
        probe.job = sbatch.submit(text)
    except RefusedError as error:
        advice = "change its `resources`; `htbench doctor` looks at SLURM from here"
        return [problem("job", f"{probe}: SLURM does not take it: {error}", advice)]
    except UnsureError as error:
        return [problem("job", f"{probe}: SLURM gives no number: {error}", "try again later")]
    print(f"htbench: job {probe.job} looks at what jobs would see: {probe}", file=sys.stderr, flush=True)
    return []


def _wait(probes: Sequence[Probe], patience: float, screen: _Screen) -> None:
    """Wait until all jobs have reported or ended, or have waited for too long."""
    began = asked = time.monotonic()
    until, running = began + patience, False
    while left := [probe for probe in probes if not probe.over and not probe.is_done()]:
        now = time.monotonic()
        if now - asked >= min(15.0, 1.0 + (now - began) / 4):  # sites limit the number of requests
            asked = now
            _ask(left)
            if not running and any(probe.state == "RUNNING" for probe in left):
                running, until = True, max(until, now + 60.0 * (MINUTES + 1))  # SLURM ends it before
        if now >= until:
            return
        screen.update(left, now - began)
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


class _Screen:
    """What is waited for: one line that changes on a terminal, a line for each change elsewhere."""

    def __init__(self) -> None:
        self._shown = ""

    def close(self) -> None:
        """Leave an empty line on a terminal."""
        if self._shown and terminal_width(sys.stderr):
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def update(self, probes: Sequence[Probe], seconds: float) -> None:
        """Show where the jobs are."""
        told = ", ".join(f"job {probe.job} {where(probe)}" for probe in probes)
        if width := terminal_width(sys.stderr):
            line = shortened(f"htbench: {seconds:.0f} s: {told}", width - 1)
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif told != self._shown:
            print(f"htbench: {told}", file=sys.stderr, flush=True)
        self._shown = told
