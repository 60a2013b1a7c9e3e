"""What a job may use on a cluster: the section `resources` of a sweep file and of its blocks. Torch-free.

The keys that this code acts on are checked. Every other key is an option of `sbatch`, handed to it as it is:
`partition: gpu` is `--partition=gpu`. What it does not take, `sbatch` says itself.
"""

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError
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


# What a job's script tells `sbatch` itself, and what would have `sbatch` answer something else.
_OURS_OF_SBATCH = tuple(
    "array chdir error export job-name no-requeue ntasks ntasks-per-node open-mode output parsable requeue "
    "signal test-only time wait wrap".split()
)
_LIKE_OURS = 0.77  # of a key, for a slip of the pen; `nodelist` is less like `nodes`


def _option(name: str, value: Any, where: str) -> Any:
    """The value of an option of `sbatch`; neither it nor its name may break the line in the script."""
    if not re.fullmatch(r"[a-z][\w-]*", name, re.ASCII):
        raise UsageError(
            f"Unknown resource {name!r} in {where}; options of `sbatch` are written like mail_type."
        )
    if type(value) not in (str, int, float, bool) or not str(value).strip() or not str(value).isprintable():
        raise UsageError(f"{name} in {where} must be a word, a number or true, in one line, not {value!r}.")
    return value


_SIZE = word(r"\d+[KMGT]?B?", "a size such as 16G")
# A job's working folder is its copy of the code.
_PYTHON = word(r"/\S*|[^\s/]+", "an absolute path or a plain name, without spaces")
_IMAGE = word(r"/\S*|\S*://\S*", "an absolute path or a URI such as docker://..., without spaces")


@dataclass(frozen=True)
class Resources:
    """A resource class. Points of one class go into the same job arrays.

    Attributes:
        options: those of `sbatch`, by their names; a switch is true, and left out if it is false.
    """

    timeout_min: int = key(
        whole(1), 60, "time limit of a job; shortly before it the run is saved, and its job queued again"
    )
    runs_per_gpu: int = key(whole(1), 1, "runs that share a GPU at the same time in `sweep run`")
    nodes: int = key(whole(1), 1, "over which the processes of a run are spread evenly")
    gpus_per_node: int = key(whole(0), 0, "GPUs of a job on each node, one for each of its processes there")
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
    setup: tuple[str, ...] = key(
        _lines, (), "list of shell lines that come before the job, such as `module load cuda`"
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
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def interpreter(self) -> str:
        """The interpreter of a job; default: that of the submitter, in a container that of the image."""
        in_image = self.container or any(part.startswith(_PYXIS) for part in self.srun_args)
        return self.python or ("python3" if in_image else sys.executable)

    @property
    def warning_seconds(self) -> int:
        """Seconds before the time limit at which a job is told to save."""
        return self.signal_delay_s or min(120, 6 * self.timeout_min)

    def on_a_gpu(self, processes: int) -> int:
        """How many runs of so many processes share a GPU; those of several have theirs alone."""
        return 1 if processes > 1 else self.runs_per_gpu

    def asked(self, processes: int = 1) -> dict[str, Any]:
        """What a job asks for, as JSON: its time limit, and the values that differ from the defaults.

        Args:
            processes: of each run.
        """
        values = {name: getattr(self, name) for name in _DEFAULTS}
        asked = {k: v for k, v in values.items() if k == "timeout_min" or v != _DEFAULTS[k]}
        asked |= {**self.options} | ({"processes": processes} if processes > 1 else {})
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()}

    def check_written(self, path: Path) -> None:
        """Raise UsageError for what a user's file can't mean.

        That is an option that a job's script sets itself, a key that is almost one of ours, or a memory size
        without a unit, which SLURM takes for megabytes.
        """
        for name in self.options:
            if any(ours.startswith(name.replace("_", "-")) for ours in _OURS_OF_SBATCH):
                raise UsageError(
                    f"{path}: resources can't have '{name}': the script of a job sets this option itself; "
                    f"docs/config.md lists the keys of resources."
                )
            if like := difflib.get_close_matches(name, keys.declared(Resources), 1, _LIKE_OURS):
                raise UsageError(f"{path}: Unknown resource '{name}'; did you mean '{like[0]}'?")
        if re.fullmatch(r"0*[1-9]\d*", n := self.mem or ""):  # 0 is all memory of the node
            raise UsageError(f"{path}: 'mem: {n}' is {n} megabytes to SLURM; write a unit: {n}G or {n}M.")

    def check(self, processes: int) -> None:
        """Raise UsageError if a job of this class can't train a run of so many processes."""
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
                f"processes={self.gpus_per_node * self.nodes}."
            )


def words(asked: Mapping[str, Any]) -> str:
    """What a job asks for, in one line."""
    return " ".join(f"{name}={setting(value)}" for name, value in asked.items())


# What jobs ask for; they know neither `submit_limit` nor `runs_per_gpu`.
_DEFAULTS = {
    name: declaration.default
    for name, declaration in keys.declared(Resources).items()
    if name not in ("submit_limit", "runs_per_gpu")
}


def read(tree: Mapping[str, Any], where: str) -> Resources:
    """Read the section of a sweep file or a block.

    Raises:
        UsageError: an impossible value; one sentence.
    """
    known = keys.declared(Resources)
    ours = {name: value for name, value in tree.items() if name in known}
    options = {
        str(name): _option(str(name), value, where)
        for name, value in tree.items()
        if name not in known and value is not None and value is not False
    }
    wanted = Resources(**keys.read(Resources, ours, where, after=f" in {where}"), options=options)
    if (wanted.signal_delay_s or 0) >= 60 * wanted.timeout_min:
        raise UsageError(
            f"signal_delay_s={wanted.signal_delay_s} in {where} must be less than the time limit, "
            f"timeout_min={wanted.timeout_min} ({60 * wanted.timeout_min} s)."
        )
    return wanted
