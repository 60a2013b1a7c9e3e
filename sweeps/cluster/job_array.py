"""Job arrays on SLURM. Each job trains one run (`sweeps/cluster/job.py`) or several (`packed_job.py`).

This module writes the text for `sbatch`. The call of `sbatch` is ours: submitit calls it without a timeout
and discards its output. So is the start of a job: submitit's loads a pickle from the store.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from submitit.slurm.slurm import _make_sbatch_string  # the text that submitit itself would submit

from harness.store.points import Point, sweep_folder
from harness.system import atomic, environment, slurm
from sweeps.cluster import job_lines, order, packed_job, sbatch, snapshot, verify
from sweeps.cluster.snapshot import Snapshot
from sweeps.cluster.submissions import Submission
from sweeps.spec.resources import Resources


def submit(
    root: Path, code: Snapshot, submission: Submission, resources: Resources, points: Sequence[Point]
) -> str:
    """Submit one array.

    Args:
        root: the store.
        code: the snapshot to run from.
        submission: the array.
        resources: what each job asks for.
        points: those of the submission; their runs have equally many processes.

    Returns:
        its id.

    Raises:
        sbatch.RefusedError: SLURM does not take it.
        sbatch.UnsureError: it may have taken it.
    """
    folder = log_folder(root, submission)
    folder.mkdir(parents=True)
    content = order.content(submission, points)
    script = text(root, code, submission, resources, points[0].processes, order.digest(content))
    try:
        atomic.write_text(folder / "submission.sh", script)  # for people to read
        order.write(folder, content)  # before the jobs are in the queue, as the disk may be full
        return sbatch.submit(script)
    except OSError:
        atomic.remove_temporaries(folder)
        raise


def text(
    root: Path,
    code: Snapshot,
    submission: Submission,
    resources: Resources,
    processes: int = 1,
    order_digest: str = "",
) -> str:
    """What `sbatch` gets to read, for runs of so many processes each and the order of that digest."""
    folder = log_folder(root, submission)
    words = ("-m", order.__name__, folder, order_digest, root.resolve(), code.folder.resolve())
    command = shlex.join(command_line(root, code, resources, *map(str, words)))
    count = submission.tasks
    array: dict[str, Any] = (
        {"map_count": count} if count > 1 else {}
    )  # submitit makes no array of a single task
    parameters = _parameters(code.folder, submission.name, resources, processes)
    return str(_make_sbatch_string(command=command, folder=folder, **parameters, **array))


def text_of_probe(
    root: Path, code: Snapshot, name: str, folder: Path, resources: Resources, processes: int, *words: str
) -> str:
    """What `sbatch` gets to read for a job that only looks around on its node (`sweeps/cluster/probe.py`).

    Args:
        root: the store.
        code: the snapshot to run from.
        name: of the job.
        folder: its log goes there.
        resources: what it asks for, as a job of the sweep would.
        processes: of each run.
        words: for the interpreter.
    """
    command = shlex.join(command_line(root, code, resources, *words))
    parameters = _parameters(code.folder, name, resources, processes)
    options = {k: v for k, v in parameters.pop("additional_parameters").items() if k != "requeue"}
    options["no-requeue"] = True  # who waits for it would not know why it starts again
    return str(
        _make_sbatch_string(command=command, folder=folder, additional_parameters=options, **parameters)
    )


def command_line(root: Path, code: Snapshot, resources: Resources, *words: str) -> list[str]:
    """What `srun` starts: the interpreter of the job with some words, in its container if it has one."""
    python, folder = resources.interpreter, str(code.folder.resolve())
    first = (Path(verify.__file__).read_text(encoding="utf-8"), folder, code.digest)
    held = [python, "-I", "-S", "-c", *first, python, "-u", *words]
    if resources.container is None:
        return held
    folders = dict.fromkeys((str(root.resolve()), folder))
    gpus = ["--nv"] if resources.gpus_per_node else []
    # Apptainer hands on the environment and, without a terminal, every signal. Image and host may have other
    # file systems, so the working folder is named, too.
    binds = ["--bind", ",".join(folders), "--pwd", folder]
    return ["apptainer", "exec", *gpus, *binds, resources.container, *held]


def log_folder(root: Path, submission: Submission) -> Path:
    """Where an array's order is and its jobs' output goes: `<job>_<task>_0_log.out`.

    Each run of a job with several has its own, `<job>_<task>_<key or slot>_log.out`.
    """
    return sweep_folder(root.resolve(), submission.sweep) / "logs" / submission.word


def _parameters(code: Path, name: str, resources: Resources, processes: int) -> dict[str, Any]:
    of_sbatch = ("account", "partition", "qos", "constraint", "exclude", "mail_type", "mail_user")
    folder = code.resolve()
    path = f"{folder}:{folder / snapshot.OUTSIDE}"
    tasks, cores = processes // resources.nodes, resources.cpus_per_task
    if resources.runs_per_job > 1:  # one process, which starts those of the runs
        tasks, cores = 1, cores * processes * resources.side_by_side(processes)
    return {
        **{option: getattr(resources, option) for option in of_sbatch},
        "job_name": name,
        "time": resources.timeout_min,
        "nodes": resources.nodes,
        "ntasks_per_node": tasks,
        "cpus_per_task": cores,
        "gpus_per_node": resources.gpus_per_node or None,
        "array_parallelism": resources.array_parallelism,
        "signal_delay_s": resources.warning_seconds,
        "stderr_to_stdout": True,
        "wckey": None,  # submitit's own word is refused where such keys are enforced
        # Without --requeue, sites with JobRequeue=0 would end a preempted job for good.
        "additional_parameters": {"requeue": True} | ({"mem": resources.mem} if resources.mem else {}),
        # srun does not inherit --cpus-per-task from sbatch since SLURM 22.05. If one process of a run is
        # killed, the others shall not wait for it. Where SBATCH_EXPORT=NONE is the custom, srun would hide
        # what is exported here.
        "srun_args": [
            *("--cpus-per-task", str(cores)),
            *("--kill-on-bad-exit=1", "--export=ALL"),
            *resources.srun_args,
        ],
        # `cd`, too: python puts the working folder before PYTHONPATH.
        "setup": [
            *job_lines.watched(resources.setup),
            f"cd {shlex.quote(str(folder))}",
            f"export PYTHONPATH={shlex.quote(path)}${{PYTHONPATH:+:$PYTHONPATH}}",
            f"export {environment.CODE_VERSION_VARIABLE}={shlex.quote(folder.name)}",
            f"export {slurm.GPUS_VARIABLE}={resources.gpus_per_node}",
            f"export {job_lines.SCRIPT_REQUEUES}=1",
            *_shared(resources, processes),
        ],
        "teardown": list(job_lines.AFTERWARDS),
    }


def _shared(resources: Resources, processes: int) -> list[str]:
    """What the process of a job with several runs must know of it."""
    if resources.runs_per_job == 1:
        return []
    return [f"export {packed_job.AT_ONCE}={resources.side_by_side(processes)}"]
