"""Job arrays on SLURM. Each job trains one run (`sweeps/cluster/job.py`).

This module writes the text for `sbatch`. The call of `sbatch` is ours: submitit calls it without a timeout
and discards its output. So is the start of a job: submitit's loads a pickle from the store.
"""

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from submitit.slurm.slurm import _make_sbatch_string  # the text that submitit itself would submit

from htbench.harness.store.points import Point
from htbench.harness.store.submissions import Submission
from htbench.harness.system import atomic, environment, slurm
from htbench.sweeps.cluster import job_log, sbatch, snapshot, verify
from htbench.sweeps.cluster.queue import ORDER, log_folder
from htbench.sweeps.cluster.snapshot import Snapshot
from htbench.sweeps.spec.resources import Resources


def submit(
    root: Path, code: Snapshot, submission: Submission, resources: Resources, points: Sequence[Point]
) -> str:
    """Submit one array.

    Args:
        root: the store.
        code: the snapshot to run from.
        submission: the array.
        resources: what each job asks for.
        points: those of the submission, in its order; their runs have equally many processes.

    Returns:
        its id.

    Raises:
        sbatch.RefusedError: SLURM does not take it.
        sbatch.UnsureError: it may have taken it.
    """
    folder = log_folder(root, submission)
    folder.mkdir(parents=True)
    content = encode_order(points)
    script = write_array_script(root, code, submission, resources, points[0].processes, content)
    try:
        atomic.write_text(folder / "submission.sh", script)  # for people to read
        atomic.write_bytes(folder / ORDER, content)  # before the jobs are in the queue: the disk may be full
        return sbatch.submit(script)
    except OSError:
        atomic.remove_temporaries(folder)
        raise


def encode_order(points: Sequence[Point]) -> bytes:
    """What the jobs of an array are to do: one file, complete before `sbatch` is called."""
    return json.dumps([asdict(point) for point in points]).encode()


def write_array_script(
    root: Path,
    code: Snapshot,
    submission: Submission,
    resources: Resources,
    processes: int = 1,
    content: bytes = b"",
) -> str:
    """The script of an array, for runs of so many processes each and this order."""
    folder, digest = log_folder(root, submission), hashlib.sha256(content).hexdigest()
    words = ("-m", "htbench.sweeps.cluster.job", folder, digest, root.resolve(), code.folder.resolve())
    return write_script(
        root,
        code,
        submission.name,
        folder,
        resources,
        processes,
        *map(str, words),
        tasks=len(submission.points),
    )


def write_script(
    root: Path,
    code: Snapshot,
    name: str,
    log_folder: Path,
    resources: Resources,
    processes: int,
    *words: str,
    tasks: int = 1,
    requeue: bool = True,
) -> str:
    """The script that `sbatch` gets for a job or an array.

    Args:
        root: the store.
        code: the snapshot to run from.
        name: of the job.
        log_folder: its log goes there.
        resources: what it asks for.
        processes: of its run.
        words: for the interpreter.
        tasks: of the array.
        requeue: whether SLURM starts it again after a preemption or the end of its node.
    """
    folder = code.folder.resolve()
    path = f"{folder}:{folder / snapshot.OUTSIDE}"
    text = _make_sbatch_string(
        command=shlex.join(_build_command(root, folder, code.digest, resources, words)),
        folder=log_folder,
        job_name=name,
        time=resources.timeout_min,
        nodes=resources.nodes,
        ntasks_per_node=processes // resources.nodes,
        cpus_per_task=resources.cpus_per_task,
        gpus_per_node=resources.gpus_per_node or None,
        array_parallelism=resources.array_parallelism,
        map_count=tasks if tasks > 1 else None,  # submitit makes no array of a single task
        signal_delay_s=resources.warning_seconds,
        stderr_to_stdout=True,
        # submitit's own word is refused where such keys are enforced
        wckey=None,  # type: ignore[arg-type]
        # Without --requeue, sites with JobRequeue=0 would end a preempted job for good.
        additional_parameters={**resources.options, "requeue" if requeue else "no-requeue": True}
        | ({"mem": resources.mem} if resources.mem else {}),
        # srun does not inherit --cpus-per-task from sbatch since SLURM 22.05. If one process of a run is
        # killed, the others shall not wait for it. Where SBATCH_EXPORT=NONE is the custom, srun would hide
        # what is exported here.
        srun_args=[
            *("--cpus-per-task", str(resources.cpus_per_task)),
            *("--kill-on-bad-exit=1", "--export=ALL"),
            *resources.srun_args,
        ],
        # `cd`, too: python puts the working folder before PYTHONPATH.
        setup=[
            *job_log.watch_setup(resources.setup),
            f"cd {shlex.quote(str(folder))}",
            f"export PYTHONPATH={shlex.quote(path)}${{PYTHONPATH:+:$PYTHONPATH}}",
            f"export {environment.CODE_VERSION_VARIABLE}={shlex.quote(folder.name)}",
            f"export {slurm.GPUS_VARIABLE}={resources.gpus_per_node}",
            f"export {job_log.SCRIPT_REQUEUES}=1",
        ],
        teardown=list(job_log.AFTERWARDS),
    )
    return str(text)


def _build_command(
    root: Path, code: Path, digest: str, resources: Resources, words: Sequence[str]
) -> list[str]:
    """What `srun` starts: the interpreter of the job with some words, in its container if it has one."""
    python = resources.interpreter
    check = (Path(verify.__file__).read_text(encoding="utf-8"), str(code), digest)
    command = [python, "-I", "-S", "-c", *check, python, "-u", *words]
    if resources.container is None:
        return command
    folders = dict.fromkeys((str(root.resolve()), str(code)))
    gpus = ["--nv"] if resources.gpus_per_node else []
    # Apptainer hands on the environment and, without a terminal, every signal. Image and host may have other
    # file systems, so the working folder is named, too.
    binds = ["--bind", ",".join(folders), "--pwd", str(code)]
    return ["apptainer", "exec", *gpus, *binds, resources.container, *command]
