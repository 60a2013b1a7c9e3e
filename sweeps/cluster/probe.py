"""`htbench doctor --sbatch`: a short job of a sweep's resources runs `htbench doctor`, and its log is shown.

The logs stay in the store. A job shares its name with no submission's.
"""

import contextlib
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from htbench.harness.config import RunConfig
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.store.points import submitting
from htbench.harness.system import atomic, slurm
from htbench.harness.system.finding import Finding, note, ok, problem
from htbench.harness.system.folders import make_folder
from htbench.sweeps.cluster import job_log, sbatch, snapshot
from htbench.sweeps.cluster.sbatch import RefusedError
from htbench.sweeps.plan.planned import block_of, search_points
from htbench.sweeps.spec import sweep_file
from htbench.sweeps.spec.resources import Resources, words

NAME = "htbench-doctor"  # of jobs, before a random word, and of the folder of their logs
MINUTES = 5  # a job's time limit; its work takes a minute where the file server takes long to give torch
NOT_SHOWN = ("timeout_min", "signal_delay_s", "setup", "srun_args", "python", "container")


def probe_nodes(root: Path, arguments: Sequence[str], patience: float) -> list[Finding]:
    """Submit a job for each kind of resources, print the logs, and say how the jobs ended.

    Args:
        root: the store.
        arguments: sweep files and `key=value`; none: a job of default resources.
        patience: seconds that jobs may wait in the queue.

    Raises:
        UsageError: there is no SLURM, or it gives a job no number, the store is not writable, or the file is
            wrong.
    """
    from htbench.sweeps.cluster import job_array  # imports submitit

    slurm.require("sbatch")
    kinds, configs = _name_kinds(root, arguments)
    root = root.resolve()
    make_folder(root)
    with submitting(root):
        code = snapshot.take(root, configs)
    logs, name = root / NAME, f"{NAME}-{uuid.uuid4().hex[:8]}"
    make_folder(logs)
    command = ("-m", "htbench", "doctor", "--root", str(root))
    jobs, findings, in_queue = dict[str, str](), list[Finding](), {name: ""}  # what may be in the queue
    try:
        for resources, kind in kinds.items():
            # A user who waits for the job would not know why it starts again.
            script = job_array.write_script(
                root, code, name, logs, resources, resources.nodes, *command, requeue=False
            )
            try:
                jobs[sbatch.submit(script)] = kind
            except RefusedError as error:
                findings.append(problem("job", Note("probe_refused", kind=kind, why=str(error))))
        in_queue = _wait_for_jobs(jobs, patience)
    finally:
        if in_queue:  # by their name, as the number of one may not be known
            try:
                slurm.call("scancel", "--quiet", f"--name={name}")
            except slurm.SlurmError as error:
                how = f"`scancel --name={name}` ends them"
                print(f"htbench: jobs may be left, {how}: {error}", file=sys.stderr)
    for job, kind in jobs.items():
        if job in in_queue:
            late = Note("probe_is_late", job=job, kind=kind, state=in_queue[job], seconds=patience)
            findings.append(problem("job", late, Note("be_patient")))
        else:
            findings.append(_report_end(root, job, kind))
    return findings


def _name_kinds(root: Path, arguments: Sequence[str]) -> tuple[dict[Resources, str], list[RunConfig]]:
    """The kinds of jobs, with the blocks that they are of, and the configs whose code the snapshot has."""
    settings = [word for word in arguments if "=" in word]
    names = [word for word in arguments if "=" not in word]
    if settings and not names:
        raise UsageError(f"'{settings[0]}' is a setting of a sweep; name the sweep file, too.")
    blocks, configs = dict[Resources, dict[str, None]](), list[RunConfig]()
    if not names:
        blocks[_shorten(Resources())] = {"default resources": None}
    for spec in sweep_file.load_all(names, settings, root) if names else ():
        for p in search_points(spec):
            kind = _shorten(block_of(spec, p.point).resources)
            blocks.setdefault(kind, {})[f"{spec.name} {p.point.block}"] = None
            configs.append(p.config)
    kinds = {}
    for kind, block_names in blocks.items():
        request = {name: value for name, value in kind.asked(kind.nodes).items() if name not in NOT_SHOWN}
        kinds[kind] = ", ".join(block_names) + (f" ({words(request)})" if request else "")
    return kinds, configs


def _shorten(resources: Resources) -> Resources:
    """The same resources for a few minutes, without what makes no difference on the node."""
    usual = Resources()
    other: dict[str, Any] = {name: getattr(usual, name) for name in ("array_parallelism", "submit_limit")}
    other["options"] = {key: value for key, value in resources.options.items() if not key.startswith("mail")}
    return replace(resources, timeout_min=min(MINUTES, resources.timeout_min), signal_delay_s=1, **other)


def _wait_for_jobs(jobs: dict[str, str], patience: float) -> dict[str, str]:
    """Wait until jobs have left the queue; returns the states of those that waited there for too long."""
    for job, kind in jobs.items():
        print(f"htbench: job {job} runs `htbench doctor`: {kind}", file=sys.stderr, flush=True)
    began, pause = time.monotonic(), 0.3
    in_queue, absences = dict.fromkeys(jobs, "PENDING"), dict.fromkeys(jobs, 0)
    while in_queue:
        waited = time.monotonic() - began
        is_late = waited > patience and set(in_queue.values()) == {"PENDING"}
        if is_late or waited > patience + 60 * (MINUTES + 1):
            break
        time.sleep(pause)
        pause = min(15.0, 1.5 * pause)  # sites limit the number of requests
        with contextlib.suppress(slurm.SlurmError):
            queue = slurm.queue()
            for job in list(in_queue):
                absences[job] = 0 if job in queue else absences[job] + 1
                in_queue[job] = queue[job].state if job in queue else in_queue[job]
                if absences[job] > 1:
                    del in_queue[job]
    return in_queue


def _report_end(root: Path, job: str, kind: str) -> Finding:
    """Print the log of a job, and say how it ended."""
    path = job_log.log_path(root / NAME, job)
    atomic.refresh_file_cache(path.parent)
    log = job_log.read(path)
    if log is None:
        return problem(
            "job", Note("probe_left_nothing", job=job, kind=kind), Note("share_the_store", root=root, job=job)
        )
    for node_log in sorted(path.parent.glob(f"{job}_*_log.out")):
        sys.stderr.write(node_log.read_text(encoding="utf-8", errors="replace"))
    about = {"job": job, "node": log.node, "kind": kind, "log": path}
    try:
        state = slurm.fields(slurm.call("scontrol", "show", "job", "-o", job)).get("JobState", "")
    except slurm.SlurmError:  # it has forgotten the job
        return note("job", Note("probe_ended", **about))
    if state == "COMPLETED":
        return ok("job", Note("probe_well", **about))
    return problem("job", Note("probe_found", **about, state=state, error=log.error))
