"""What a job may use on a cluster: the section `resources` of a sweep file and of its blocks. Torch-free."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import setting
from htbench.sweeps.spec import keys
from htbench.sweeps.spec.keys import key, whole, word

_PYXIS = "--container-"
# What a job's script tells `srun` (`sweeps/cluster/job_array.py`). Long options may be shortened.
_OURS_OF_SRUN = (
    *("--export", "--kill-on-bad-exit", "--cpus-per-task", "--output", "--error"),
    *("--nodes", "--ntasks", "--ntasks-per-node"),
)
_SHORT_OF_SRUN = ("-K", "-c", "-n", "-N", "-o", "-e")


def _lines(name: str, value: Any) -> tuple[str, ...]:
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise UsageError(f"{name} must be a list of shell lines, not {value!r}.")
    return tuple(lines)


def _srun_args(name: str, value: Any) -> tuple[str, ...]:
    """The words for `srun`, without options that are ours."""
    words = [part for part in value if isinstance(part, str)] if isinstance(value, list) else []
    if words != value or not all(re.fullmatch(r"\S+", part) for part in words):
        raise UsageError(f"{name} must be a list of words without spaces, not {value!r}.")
    if words and not words[0].startswith("-"):
        raise UsageError(f"{name} must begin with an option, not {words[0]!r}.")
    for part in words:
        option = part.partition("=")[0]
        long = option.startswith("--") and any(ours.startswith(option) for ours in _OURS_OF_SRUN)
        if long or part.startswith(_SHORT_OF_SRUN):
            raise UsageError(f"{name} can't have {part!r}: the job's script sets this option itself.")
    return tuple(words)


# A space would end the option in the script, and sbatch would read the rest as options of its own.
_OPTION = word()
_SIZE = word(r"\d+[KMGT]?B?", "a size such as 16G")
# 0 is all memory of the node.
_WITHOUT_UNIT = re.compile(r"(?:mem: |(?:#SBATCH\s+)?--mem(?:-per-[cg]pu)?[=\s]\s*)(0*[1-9]\d*)\s*")
# A job's working folder is its copy of the code.
_PYTHON = word(r"/\S*|[^\s/]+", "an absolute path or a plain name, without spaces")
_IMAGE = word(r"/\S*|\S*://\S*", "an absolute path or a URI such as docker://..., without spaces")


@dataclass(frozen=True)
class Resources:
    """A resource class. Points of one class go into the same job arrays."""

    timeout_min: int = key(
        whole(1), 60, "time limit of a job; shortly before it the run is saved, and its job queued again"
    )
    runs_per_job: int = key(whole(1), 1, "runs of a job, side by side and one after another on one node")
    runs_per_gpu: int = key(
        whole(1), 1, "runs that share a GPU at the same time, in such a job and in `sweep run`"
    )
    runs_at_once: int = key(whole(1), 1, "runs side by side in such a job without GPUs")
    nodes: int = key(whole(1), 1, "over which the processes of a run are spread evenly")
    gpus_per_node: int = key(
        whole(0),
        0,
        "GPUs of a job on each node, one for each of its processes there; with `runs_per_job` those of all "
        "its runs together",
    )
    cpus_per_task: int = key(whole(1), 1, "cores of each process")
    mem: str | None = key(_SIZE, None, "memory of a job on each node, such as `16G`; default: the site's")
    array_parallelism: int = key(whole(1), 256, "jobs of one array that run at a time")
    submit_limit: int | None = key(
        whole(1), None, "most jobs of yours that may be in the queue; later calls submit the rest"
    )
    signal_delay_s: int | None = key(
        whole(1),
        None,
        "seconds before the limit at which a run is told to save; default: a tenth, at most 120",
    )
    account: str | None = key(_OPTION, None, "of `sbatch`")
    partition: str | None = key(_OPTION, None, "of `sbatch`")
    qos: str | None = key(_OPTION, None, "of `sbatch`")
    constraint: str | None = key(_OPTION, None, "of `sbatch`")
    exclude: str | None = key(_OPTION, None, "nodes not to use")
    mail_type: str | None = key(_OPTION, None, "when to write mail, such as `FAIL`")
    mail_user: str | None = key(_OPTION, None, "to whom")
    setup: tuple[str, ...] = key(
        _lines,
        (),
        "list of shell lines that come before the job, such as `module load cuda`. Lines like `#SBATCH "
        "--gres=gpu:a100:1` before all others are options of `sbatch` that have no name here",
    )
    python: str | None = key(
        _PYTHON,
        None,
        "interpreter of a job, an absolute path or a name on its PATH; default: that of the submitter, in a "
        "container `python3`",
    )
    srun_args: tuple[str, ...] = key(
        _srun_args, (), "list of words for `srun` beside ours, such as `--container-image=...` of pyxis"
    )
    container: str | None = key(
        _IMAGE, None, "image that `apptainer exec` runs the job in, an absolute path or a URI"
    )

    @property
    def interpreter(self) -> str:
        """The interpreter of a job; default: that of the submitter, in a container that of the image."""
        return self.python or ("python3" if self.contained else sys.executable)

    @property
    def _in_pyxis(self) -> bool:
        return any(part.startswith(_PYXIS) for part in self.srun_args)

    @property
    def contained(self) -> bool:
        """Whether a job runs in a container, of apptainer or of pyxis."""
        return bool(self.container) or self._in_pyxis

    @property
    def warning_seconds(self) -> int:
        """Seconds before the time limit at which a job is told to save."""
        return self.signal_delay_s or min(120, 6 * self.timeout_min)

    def on_a_gpu(self, processes: int) -> int:
        """How many runs of so many processes share a GPU; those of several have theirs alone."""
        return 1 if processes > 1 else self.runs_per_gpu

    def side_by_side(self, processes: int = 1) -> int:
        """How many runs of so many processes a job trains at the same time."""
        on_gpus = self.gpus_per_node * self.runs_per_gpu // processes
        return max(1, min(self.runs_per_job, on_gpus if self.gpus_per_node else self.runs_at_once))

    def idle_gpus(self, processes: int = 1) -> Note | None:
        """A warning if each job of several runs leaves GPUs idle.

        Args:
            processes: of each run.
        """
        gpus, runs = self.gpus_per_node, self.side_by_side(processes)
        busy, most = runs * processes, gpus // processes
        if self.runs_per_job == 1 or busy >= gpus:
            return None
        more = most if most > runs else None
        return Note(
            "idle_gpus", gpus=gpus, runs=runs, busy=busy, idle=gpus - busy, more=more, used=most * processes
        )

    def asked(self, processes: int = 1) -> dict[str, Any]:
        """What a job asks for, as JSON: its time limit, and the values that differ from the defaults.

        Args:
            processes: of each run.
        """
        values = {name: getattr(self, name) for name in _DEFAULTS}
        asked = {k: v for k, v in values.items() if k == "timeout_min" or v != _DEFAULTS[k]}
        asked |= {"processes": processes} if processes > 1 else {}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()}

    def check_units(self, path: Path) -> None:
        """Raise UsageError if a memory size in the user's file has no unit: SLURM takes it for megabytes."""
        for line in (f"mem: {self.mem}", *self.setup, *self.srun_args):
            if bare := _WITHOUT_UNIT.fullmatch(line):
                n = bare[1]
                raise UsageError(f"{path}: '{line}' is {n} megabytes to SLURM; write a unit: {n}G or {n}M.")

    def check(self, processes: int) -> None:
        """Raise UsageError if a job of this class can't train a run of so many processes."""
        if self.warning_seconds >= 60 * self.timeout_min:
            raise UsageError(
                f"signal_delay_s={self.warning_seconds} is no less than timeout_min={self.timeout_min}: "
                f"every job would be told to save as soon as it starts, again and again."
            )
        if self.runs_per_job > 1:
            return self._check_shared(processes)
        if self.runs_at_once > 1:
            raise UsageError(
                f"runs_at_once={self.runs_at_once} needs a job with several runs; add runs_per_job."
            )
        tasks, left = divmod(processes, self.nodes)
        if left:
            raise UsageError(
                f"processes={processes} can't be spread evenly over nodes={self.nodes}; "
                f"processes must be a multiple of nodes."
            )
        if self.gpus_per_node not in (0, tasks):
            raise UsageError(
                f"gpus_per_node={self.gpus_per_node} does not suit processes={processes} on "
                f"nodes={self.nodes}: each process has one GPU, so it must be gpus_per_node={tasks} or "
                f"processes={self.gpus_per_node * self.nodes}; for several runs in a job add runs_per_job."
            )

    def _check_shared(self, processes: int) -> None:
        """Raise UsageError if a job can't hold several runs of so many processes."""
        if self.nodes > 1:
            raise UsageError(
                f"runs_per_job={self.runs_per_job} is for jobs on one node, not on nodes={self.nodes}."
            )
        if not self.gpus_per_node and self.runs_per_gpu > 1:
            raise UsageError(
                f"runs_per_gpu={self.runs_per_gpu} needs gpus_per_node; without GPUs runs_at_once says how "
                f"many runs a job trains side by side."
            )
        if self.gpus_per_node and self.runs_at_once > 1:
            raise UsageError(
                f"runs_at_once={self.runs_at_once} is for jobs without GPUs; with gpus_per_node="
                f"{self.gpus_per_node} each GPU takes runs_per_gpu={self.runs_per_gpu} runs at once."
            )
        if self.gpus_per_node and (
            processes > self.gpus_per_node or (processes > 1 and self.runs_per_gpu > 1)
        ):
            raise UsageError(
                f"processes={processes} does not suit gpus_per_node={self.gpus_per_node} and runs_per_gpu="
                f"{self.runs_per_gpu}: each process of a run has a GPU, and those of several have it alone."
            )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs between what two jobs ask for (`Resources.asked`): name -> the two values."""
    usual = _DEFAULTS | {"processes": 1, "setup": [], "srun_args": []}
    names = dict.fromkeys([*old, *new])
    pairs = {name: (old.get(name, usual.get(name)), new.get(name, usual.get(name))) for name in names}
    # `submit_limit` is a matter between `submit` and the file; no job knows it.
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1] and name != "submit_limit"}


def words(asked: Mapping[str, Any]) -> str:
    """What a job asks for, in one line."""
    return " ".join(f"{name}={setting(value)}" for name, value in asked.items())


_DEFAULTS = dataclasses.asdict(Resources())


def read(tree: Mapping[str, Any], where: str) -> Resources:
    """Read the section of a sweep file or a block.

    Raises:
        UsageError: an unknown name or an impossible value; one sentence.
    """
    wanted = Resources(**keys.read(Resources, tree, where, after=f" in {where}", what="resource"))
    if (wanted.signal_delay_s or 0) >= 60 * wanted.timeout_min:
        raise UsageError(
            f"signal_delay_s={wanted.signal_delay_s} in {where} must be less than the time limit, "
            f"timeout_min={wanted.timeout_min} ({60 * wanted.timeout_min} s)."
        )
    if wanted.container and wanted._in_pyxis:
        raise UsageError(
            f"container={wanted.container} in {where} is run by apptainer, {_PYXIS}... in srun_args by "
            f"pyxis; one of them must go."
        )
    return wanted
