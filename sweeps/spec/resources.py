"""What a job may use on a cluster: the section `resources` of a sweep file and of its blocks. Torch-free."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.show.numbers import counted, setting
from sweeps.spec.shape import check_keys, whole


@dataclass(frozen=True)
class Resources:
    """A resource class. Points of one class go into the same job arrays.

    Attributes:
        timeout_min: a job's time limit. Shortly before it the run is saved, and its job is queued again.
        runs_per_job: runs of a job, which work on one node, side by side and one after another.
        runs_per_gpu: runs that share a GPU of such a job at the same time.
        runs_at_once: runs side by side in such a job without GPUs; with GPUs their number tells.
        nodes: of a job; each has equally many processes of the run.
        gpus_per_node: GPUs of a job on each node, one for each of its processes there; in a job of several
            runs as many as all of them together may use; 0 for the CPU.
        cpus_per_task: cores of each process of a run.
        mem: memory of a job on each node, such as `16G`; None: the site's default.
        array_parallelism: jobs of one array that run at the same time.
        submit_limit: most jobs in the queue; later calls submit the rest. None: no limit.
        signal_delay_s: seconds before the time limit at which a run is told to save; None: a tenth of the
            limit, at most two minutes.
        account: of `sbatch`, as are the following.
        partition: `sbatch --partition`.
        qos: `sbatch --qos`.
        constraint: `sbatch --constraint`.
        exclude: nodes not to use.
        mail_type: events that SLURM sends mail on, such as `FAIL`.
        mail_user: the address of the mail.
        setup: lines of shell that come before the job, such as `module load cuda`. Lines like
            `#SBATCH --gres=gpu:a100:1` before all others are options of `sbatch` that have no name here.
        python: the interpreter of a job, an absolute path or a name on its PATH; see `interpreter`.
        srun_args: words for `srun` beside ours, such as `--container-image=...` of pyxis.
        container: an image that apptainer runs the job in, an absolute path or a URI.
    """

    timeout_min: int = 60
    runs_per_job: int = 1
    runs_per_gpu: int = 1
    runs_at_once: int = 1
    nodes: int = 1
    gpus_per_node: int = 0
    cpus_per_task: int = 1
    mem: str | None = None
    array_parallelism: int = 256
    submit_limit: int | None = None
    signal_delay_s: int | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    mail_type: str | None = None
    mail_user: str | None = None
    setup: tuple[str, ...] = ()
    python: str | None = None
    srun_args: tuple[str, ...] = ()
    container: str | None = None

    @property
    def interpreter(self) -> str:
        """The interpreter of a job; default: that of the submitter, in a container that of the image."""
        return self.python or ("python3" if self.contained else sys.executable)

    @property
    def contained(self) -> bool:
        """Whether a job runs in a container, of apptainer or of pyxis."""
        return bool(self.container) or any(word.startswith(_PYXIS) for word in self.srun_args)

    @property
    def warning_seconds(self) -> int:
        """Seconds before the time limit at which a job is told to save."""
        return self.signal_delay_s or min(120, 6 * self.timeout_min)

    def side_by_side(self, processes: int = 1) -> int:
        """How many runs of so many processes a job trains at the same time."""
        room = (
            self.gpus_per_node * self.runs_per_gpu // processes if self.gpus_per_node else self.runs_at_once
        )
        return max(1, min(self.runs_per_job, room))

    def idle_gpus(self, processes: int = 1) -> str:
        """A warning if each job of several runs leaves GPUs idle; empty otherwise.

        Args:
            processes: of each run.
        """
        gpus, together = self.gpus_per_node, self.side_by_side(processes)
        busy, most = together * processes, gpus // processes
        if self.runs_per_job == 1 or busy >= gpus:
            return ""
        better = f"gpus_per_node={busy} would do"
        if most > together:
            better = f"runs_per_job={most} or more would use {most * processes} of them, or {better}"
        return (
            f"gpus_per_node={gpus}, but a job trains {counted(together, 'run')} at once on {busy} of these "
            f"GPUs, which leaves {gpus - busy} idle; {better}"
        )

    def asked(self, processes: int = 1) -> dict[str, Any]:
        """What a job asks for, as JSON: its time limit, and the values that differ from the defaults.

        Args:
            processes: of each run.
        """
        given = {name: getattr(self, name) for name in _DEFAULTS}
        told = {
            name: given[name] for name in given if name == "timeout_min" or given[name] != _DEFAULTS[name]
        }
        told |= {"processes": processes} if processes > 1 else {}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}

    def keeping_off(self, nodes: Collection[str]) -> Resources:
        """The same without some nodes."""
        excluded = [*([self.exclude] if self.exclude else []), *nodes]
        return dataclasses.replace(self, exclude=",".join(excluded) or None)

    def check(self, processes: int) -> None:
        """Raise UsageError if a job of this class can't train a run of so many processes."""
        if self.warning_seconds >= 60 * self.timeout_min:
            raise UsageError(
                f"signal_delay_s={self.warning_seconds} is no less than timeout_min={self.timeout_min}: "
                f"every job would be told to save as soon as it starts, again and again."
            )
        if self.runs_per_job > 1:
            return self._check_shared(processes)
        for name, value in (("runs_per_gpu", self.runs_per_gpu), ("runs_at_once", self.runs_at_once)):
            if value > 1:
                raise UsageError(f"{name}={value} needs a job with several runs; add runs_per_job.")
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


_PYXIS = "--container-"
# What a job's script tells `srun` (`sweeps/cluster/job_array.py`). Long options may be shortened.
_OWN_OF_SRUN = (
    *("--export", "--kill-on-bad-exit", "--cpus-per-task", "--output", "--error"),
    *("--nodes", "--ntasks", "--ntasks-per-node"),
)
_SHORT_OF_SRUN = ("-K", "-c", "-n", "-N", "-o", "-e")

_DEFAULTS = dataclasses.asdict(Resources())
_LOWEST = {"gpus_per_node": 0} | dict.fromkeys(
    ("timeout_min", "runs_per_job", "runs_per_gpu", "runs_at_once", "nodes", "cpus_per_task")
    + ("array_parallelism", "submit_limit", "signal_delay_s"),
    1,
)


def read(tree: Mapping[str, Any], where: str) -> Resources:
    """Read the section of a sweep file or a block.

    Raises:
        UsageError: an unknown name or an impossible value; one sentence.
    """
    check_keys(tree, _DEFAULTS, where, "resource")
    given = {name: _value(name, value, where) for name, value in tree.items() if value is not None}
    found = Resources(**given)
    if (found.signal_delay_s or 0) >= 60 * found.timeout_min:
        raise UsageError(
            f"signal_delay_s={found.signal_delay_s} in {where} must be less than the time limit, "
            f"timeout_min={found.timeout_min} ({60 * found.timeout_min} s)."
        )
    if found.container and any(word.startswith(_PYXIS) for word in found.srun_args):
        raise UsageError(
            f"container={found.container} in {where} is run by apptainer, {_PYXIS}... in srun_args by pyxis; "
            f"one of them must go."
        )
    return found


def _value(name: str, value: Any, where: str) -> Any:
    if name in _LOWEST:
        return whole(f"{name} in {where}", value, _LOWEST[name])
    if name == "setup":
        lines = [value] if isinstance(value, str) else value
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise UsageError(f"setup in {where} must be a list of shell lines, not {value!r}.")
        return tuple(lines)
    if name == "srun_args":
        return _srun_args(value, where)
    if name == "mem" and not re.fullmatch(r"\d+[KMGT]?B?", str(value)):
        raise UsageError(f"mem in {where} must be a size such as 16G, not {value!r}.")
    # A space would end the option in the script, and sbatch would read the rest as options of its own.
    word = str(value) if type(value) in (str, int) else ""
    if not re.fullmatch(r"\S+", word):
        raise UsageError(f"{name} in {where} must be a word without spaces, not {value!r}.")
    # A job's working folder is its copy of the code.
    if name == "python" and "/" in word and not word.startswith("/"):
        raise UsageError(f"python in {where} must be an absolute path or a plain name, not {value!r}.")
    if name == "container" and not (word.startswith("/") or "://" in word):
        raise UsageError(
            f"container in {where} must be an absolute path or a URI such as docker://..., not {value!r}."
        )
    return word


def _srun_args(value: Any, where: str) -> tuple[str, ...]:
    """The words for `srun`. Raises UsageError for other values and for options that are ours."""
    words = [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
    if words != value or not all(re.fullmatch(r"\S+", word) for word in words):
        raise UsageError(f"srun_args in {where} must be a list of words without spaces, not {value!r}.")
    if words and not words[0].startswith("-"):
        raise UsageError(f"srun_args in {where} must begin with an option, not {words[0]!r}.")
    for word in words:
        option = word.partition("=")[0]
        long = option.startswith("--") and any(own.startswith(option) for own in _OWN_OF_SRUN)
        if long or word.startswith(_SHORT_OF_SRUN):
            raise UsageError(
                f"srun_args in {where} can't have {word!r}: the job's script sets this option itself."
            )
    return tuple(words)
