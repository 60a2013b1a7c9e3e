"""Job arrays on SLURM, each job of which trains one run. The only file with submitit.

It writes what `sbatch` reads and the pickles, and starts what was pickled. Handing over to `sbatch` is ours:
submitit's own gives it no limit of time and loses what it says meanwhile.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import DelayedSubmission, JobPaths
from submitit.slurm.slurm import _make_sbatch_string  # the text that submitit itself would submit

from harness.config.key import run_key
from harness.config.settings import make
from harness.store.points import Point, sweep_folder
from harness.system import atomic, environment, slurm
from harness.system.environment import HOME
from harness.train.monitor import Monitor
from sweeps.cluster import sbatch, snapshot
from sweeps.cluster.submissions import Submission
from sweeps.execute import EXIT_ENDED, EXIT_STOPPED, execute
from sweeps.spec.resources import Resources


@dataclass(frozen=True)
class Task:
    """What a job does, in each process of its run: plain values, as submitit pickles it.

    Attributes:
        root: the store.
        point: with settings, or a slot of a search.
        code: the snapshot to run from.
    """

    root: str
    point: Point
    code: str

    def __call__(self) -> None:
        """Train the point's run, or as much of it as signals allow; the exit status is that of `execute`."""
        monitor = Monitor()
        monitor.stop_on_signals()  # submitit has put handlers that raise in the middle of whatever is done
        if Path(self.code).resolve() != HOME:
            sys.exit(f"htbench: this job imports from {HOME} instead of its snapshot {self.code}.")
        key = self.point.key
        if not self.point.slot and run_key(make(self.point.overrides)) != key:
            sys.exit(f"htbench: run {key} was planned with other data or defaults than this node has.")
        if self.point.processes > 1:
            submitit.helpers.TorchDistributedEnvironment().export(
                set_cuda_visible_devices=False, overwrite=True
            )
        status = execute(Path(self.root), self.point, monitor, _say)
        if status == EXIT_STOPPED and (signal.SIGUSR2 in monitor.signals or slurm.preempted()):
            _requeue()
        sys.exit(status)


def _say(what: object) -> None:
    print(f"htbench: {what}", file=sys.stderr, flush=True)


def _requeue() -> None:
    """Let this job start again: SLURM's warning came before its time limit, or before it is preempted."""
    job = slurm.own_job()
    try:
        slurm.call("scontrol", "requeue", job)
    except slurm.SlurmError as error:
        _say(f"job {job} could not be queued again, the next `sweep submit` does it: {error}")
        sys.exit(EXIT_ENDED)


def tasks(root: Path, code: Path, points: Sequence[Point]) -> list[Task]:
    """The jobs for some points."""
    return [Task(str(root.resolve()), point, str(code.resolve())) for point in points]


def submit(root: Path, code: Path, submission: Submission, resources: Resources, jobs: Sequence[Task]) -> str:
    """Submit one array.

    Returns:
        its id.

    Raises:
        sbatch.RefusedError: SLURM does not take it.
    """
    folder = log_folder(root, submission)
    folder.mkdir(parents=True)
    script = folder / "submission.sh"
    script.write_text(text(root, code, submission, resources, jobs[0].point.processes), encoding="utf-8")
    try:
        # Before the jobs are in the queue, as each waits for its own a minute only and the disk may be full.
        pickles = [_pickled(folder, task) for task in jobs]
        job = sbatch.submit(script)
    except (sbatch.RefusedError, OSError):
        atomic.remove_temporaries(folder)
        raise
    for place, pickle in zip(_places(root, replace(submission, job=job)), pickles, strict=True):
        pickle.replace(place)
    return job


def text(root: Path, code: Path, submission: Submission, resources: Resources, processes: int = 1) -> str:
    """What `sbatch` gets to read, for runs of so many processes each."""
    folder = log_folder(root, submission)
    command = f"{shlex.quote(sys.executable)} -u -m submitit.core._submit {shlex.quote(str(folder))}"
    count = len(submission.points)
    array: dict[str, Any] = (
        {"map_count": count} if count > 1 else {}
    )  # submitit makes no array of a single task
    parameters = _parameters(code, submission, resources, processes)
    return str(_make_sbatch_string(command=command, folder=folder, **parameters, **array))


def put_pickles(root: Path, submission: Submission, jobs: Sequence[Task | None]) -> None:
    """Put the pickles of an array in place whose submitter died before it could; those that are there stay.

    Args:
        root: the store.
        submission: an array in the queue.
        jobs: its tasks; None for a run that is no longer wanted, whose job then fails.
    """
    folder = log_folder(root, submission)
    for place, task in zip(_places(root, submission), jobs, strict=True):
        if task is not None and not place.exists():
            _pickled(folder, task).replace(place)
    atomic.remove_temporaries(folder)


def _pickled(folder: Path, task: Task) -> Path:
    """A task in a temporary file."""
    file = atomic.temporary_name(folder / "task.pkl")
    DelayedSubmission(task).dump(file)
    return file


def _places(root: Path, submission: Submission) -> list[Path]:
    """Where the tasks of an array look for their pickles."""
    folder = log_folder(root, submission)
    return [JobPaths(folder, submission.task(point)).submitted_pickle for point in submission.points]


def log_folder(root: Path, submission: Submission) -> Path:
    """Where an array's pickles are and its jobs' output goes: `<job>_<task>_0_log.out`."""
    return sweep_folder(root.resolve(), submission.sweep) / "logs" / submission.word


def _parameters(code: Path, submission: Submission, resources: Resources, processes: int) -> dict[str, Any]:
    of_sbatch = ("account", "partition", "qos", "constraint", "exclude", "mail_type", "mail_user")
    folder = code.resolve()
    path = f"{folder}:{folder / snapshot.OUTSIDE}"
    return {
        **{name: getattr(resources, name) for name in of_sbatch},
        "job_name": submission.name,
        "time": resources.timeout_min,
        "nodes": resources.nodes,
        "ntasks_per_node": processes // resources.nodes,
        "cpus_per_task": resources.cpus_per_task,
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
            *("--cpus-per-task", str(resources.cpus_per_task)),
            *("--kill-on-bad-exit=1", "--export=ALL"),
        ],
        # `cd`, too: python puts the working folder before PYTHONPATH.
        "setup": [
            *resources.setup,
            f"cd {shlex.quote(str(folder))}",
            f"export PYTHONPATH={shlex.quote(path)}${{PYTHONPATH:+:$PYTHONPATH}}",
            f"export {environment.CODE_VERSION_VARIABLE}={shlex.quote(folder.name)}",
        ],
    }
