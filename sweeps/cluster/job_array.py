"""Job arrays on SLURM. Each job trains one run (`sweeps/cluster/job.py`) or several (`packed_job.py`).

This module writes the text for `sbatch` and the pickles. The call of `sbatch` is ours: submitit calls it
without a timeout and discards its output.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from submitit.core.utils import DelayedSubmission, JobPaths
from submitit.slurm.slurm import _make_sbatch_string  # the text that submitit itself would submit

from harness.store.points import Point, sweep_folder
from harness.system import atomic, environment, slurm
from harness.train.monitor import STOP_SIGNALS
from sweeps.cluster import job_lines, packed_job, sbatch, snapshot
from sweeps.cluster.submissions import Submission
from sweeps.spec.resources import Resources

# How a job starts: source for `exec`, which gets the plain values of `task`. A job waits in the queue while
# code changes, and its pickle may be written anew by later code (`put_pickles`). So no pickle names a class
# or a function of ours.
START = "from sweeps.cluster.job import work\nwork(**task)"
START_PACKED = "from sweeps.cluster.packed_job import work\nwork(**task)"
# Before that, Python and submitit load for a second or, from a busy file server, for many. A signal would
# kill the job then, or submitit's own handler would swallow it. So a Python that loads next to nothing blocks
# the signals and becomes the real one: they wait until `Monitor.stop_on_signals`.
HOLD_BACK = (
    "import os, signal, sys; "
    f"signal.pthread_sigmask(signal.SIG_BLOCK, ({', '.join(f'signal.{one.name}' for one in STOP_SIGNALS)})); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
# How it starts in a snapshot of older code, which is known by one of its files.
STARTS_BEFORE = {
    # Version 0.1. Delete this once no job of that version can be in a queue, half a year after version 0.2.
    "sweeps/launch.py": """
from harness.plans import Point
from sweeps.launch import Task
Task(task["root"], Point(**task["point"]), task["code"])()
""",
}


def submit(
    root: Path, code: Path, submission: Submission, resources: Resources, points: Sequence[Point]
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
        sbatch.UnsureError: it may have taken it; `put_pickles` then gives its tasks what they wait for.
    """
    folder = log_folder(root, submission)
    folder.mkdir(parents=True)
    script = folder / "submission.sh"
    script.write_text(text(root, code, submission, resources, points[0].processes), encoding="utf-8")
    try:
        # Before the jobs are in the queue, as each waits for its own a minute only and the disk may be full.
        of = {point.id: point for point in points}
        shares = [submission.share(task) for task in range(submission.tasks)]
        pickles = [_pickle(root, code, submission, [of[id] for id in share]) for share in shares]
        job = sbatch.submit(script)
    except (sbatch.RefusedError, sbatch.UnsureError, OSError):
        atomic.remove_temporaries(folder)
        raise
    for place, pickle in zip(places(root, replace(submission, job=job)), pickles, strict=True):
        pickle.replace(place)
    return job


def text(root: Path, code: Path, submission: Submission, resources: Resources, processes: int = 1) -> str:
    """What `sbatch` gets to read, for runs of so many processes each."""
    folder = log_folder(root, submission)
    command = shlex.join(command_line(root, code, resources, "-m", "submitit.core._submit", str(folder)))
    count = submission.tasks
    array: dict[str, Any] = (
        {"map_count": count} if count > 1 else {}
    )  # submitit makes no array of a single task
    parameters = _parameters(code, submission.name, resources, processes)
    return str(_make_sbatch_string(command=command, folder=folder, **parameters, **array))


def text_of_probe(
    root: Path, code: Path, name: str, folder: Path, resources: Resources, processes: int, *words: str
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
    parameters = _parameters(code, name, resources, processes)
    options = {k: v for k, v in parameters.pop("additional_parameters").items() if k != "requeue"}
    options["no-requeue"] = True  # who waits for it would not know why it starts again
    return str(
        _make_sbatch_string(command=command, folder=folder, additional_parameters=options, **parameters)
    )


def command_line(root: Path, code: Path, resources: Resources, *words: str) -> list[str]:
    """What `srun` starts: the interpreter of the job with some words, in its container if it has one."""
    python = resources.interpreter
    held = [python, "-I", "-S", "-c", HOLD_BACK, python, "-u", *words]
    if resources.container is None:
        return held
    folders = dict.fromkeys(str(folder.resolve()) for folder in (root, code))
    gpus = ["--nv"] if resources.gpus_per_node else []
    # Apptainer hands on the environment and, without a terminal, every signal. Image and host may have other
    # file systems, so the working folder is named, too.
    binds = ["--bind", ",".join(folders), "--pwd", str(code.resolve())]
    return ["apptainer", "exec", *gpus, *binds, resources.container, *held]


def put_pickles(root: Path, code: Path, submission: Submission, points: Sequence[Point]) -> None:
    """Put the pickles of an array in place whose submitter died before it could; those that are there stay.

    Args:
        root: the store.
        code: the snapshot that its jobs run from.
        submission: an array in the queue.
        points: those of its points that are wanted still; a job without any fails.
    """
    folder, wanted = log_folder(root, submission), {point.id: point for point in points}
    for place, share in zip(places(root, submission), submission.jobs().values(), strict=True):
        own = [wanted[id] for id in share if id in wanted]
        if own and not place.exists():
            _pickle(root, code, submission, own).replace(place)
    atomic.remove_temporaries(folder)


def delayed(root: Path, code: Path, point: Point) -> DelayedSubmission:
    """What a task of an array does, as submitit pickles it: names of the standard library and plain values.

    Args:
        root: the store.
        code: the snapshot to run from.
        point: with settings, or a slot of a search.
    """
    start = next((old for file, old in STARTS_BEFORE.items() if (code / file).exists()), START)
    return DelayedSubmission(exec, start, {"task": _places(root, code) | {"point": asdict(point)}})


def delayed_together(root: Path, code: Path, points: Sequence[Point], logs: Path) -> DelayedSubmission:
    """As `delayed`, for a task with several runs, which print into the folder `logs`."""
    runs = {"points": [asdict(point) for point in points], "logs": str(logs)}
    return DelayedSubmission(exec, START_PACKED, {"task": _places(root, code) | runs})


def _places(root: Path, code: Path) -> dict[str, Any]:
    return {"root": str(root.resolve()), "code": str(code.resolve())}


def _pickle(root: Path, code: Path, submission: Submission, points: Sequence[Point]) -> Path:
    """What a task of a submission does with these points of its share, in a temporary file."""
    folder = log_folder(root, submission)
    if submission.runs_per_job > 1:
        return _pickled(folder, delayed_together(root, code, points, folder))
    return _pickled(folder, delayed(root, code, points[0]))


def _pickled(folder: Path, task: DelayedSubmission) -> Path:
    """A task in a temporary file."""
    file = atomic.temporary_name(folder / "task.pkl")
    task.dump(file)
    return file


def places(root: Path, submission: Submission) -> list[Path]:
    """Where the tasks of an array look for their pickles, in their order."""
    folder = log_folder(root, submission)
    return [JobPaths(folder, job).submitted_pickle for job in submission.jobs()]


def log_folder(root: Path, submission: Submission) -> Path:
    """Where an array's pickles are and its jobs' output goes: `<job>_<task>_0_log.out`.

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
