"""What a job of `htbench doctor --sbatch` does: `python -m sweeps.cluster.probed FOLDER WORD`.

The first process of each node looks at what a run there would meet. It writes its findings after each check,
so that a check which ends or holds up the process can be named.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import platform
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import tasks
from harness.config import parts
from harness.errors import UsageError
from harness.system import atomic, environment, place, slurm
from harness.system import checks as machine
from harness.system.finding import Finding, guarded, note, ok, one_line, problem
from harness.system.machine import usable_cores, visible_gpus
from harness.train.monitor import STOP_SIGNALS

ASKED, HELD = "asked.json", "held"  # files of a job's folder, and of the one above it
REPORT = "node-*.json"
LIMITS = "look which limits your site, `setup` and `srun_args` put on processes"
LATE, HOURS = 5.0, 3600.0  # seconds by which a clock is off: a note, a problem (`harness/store/owner.py`)
# What a real job loads.
IMPORTS = ("sweeps.cluster.order", "sweeps.cluster.job", "sweeps.cluster.packed_job", "sweeps.studies.trial")


@dataclass(frozen=True)
class Asked:
    """What the submitter tells the job.

    Attributes:
        word: known to the submitter and to the job's command line.
        root: the store.
        code: the snapshot to run from.
        host: the submitter's.
        ahead: seconds by which the submitter's clock is ahead of the file server's.
        processes: of the job on each node.
        contained: whether the job runs in a container.
        on_cpu: whether all of its runs have `device: cpu`.
        data: task -> its fingerprint at the submitter.
    """

    word: str
    root: str
    code: str
    host: str
    ahead: float
    processes: int
    contained: bool
    on_cpu: bool
    data: Mapping[str, str]


def main(folder: Path, word: str) -> None:
    """Look around and write a report for this node.

    Raises:
        SystemExit: the folder is not the one of the submitter.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # held back by the command line of a job
    if os.environ.get("SLURM_LOCALID", "0") != "0":
        return
    told = atomic.read_json(folder / ASKED)
    if not isinstance(told, dict) or told.get("word") != word:
        sys.exit(f"htbench: '{folder}' on node {slurm.own_node()} is not what the submitter wrote")
    asked, found = Asked(**told), list[Finding]()
    for name, check in CHECKS.items():
        _write(folder, found, name)
        found += guarded((folder, asked), check)
    _write(folder, found, "")


def _write(folder: Path, found: list[Finding], at: str) -> None:
    """The findings so far, and what is looked at now; empty at the end."""
    report = {"node": slurm.own_node(), "at": at, "findings": [asdict(one) for one in found]}
    number = os.environ.get("SLURM_NODEID", "0")
    atomic.write_json(folder / REPORT.replace("*", number), report)


# --- checks ---

Seen = tuple[Path, Asked]


def _python(seen: Seen) -> Iterator[Finding]:
    yield ok("python", f"{platform.python_version()}, {sys.executable}, {platform.platform()}")


def _code(seen: Seen) -> Iterator[Finding]:
    _, asked = seen
    if Path(asked.code).resolve() != environment.HOME:
        what = f"imported from {environment.HOME} instead of the snapshot {asked.code}"
        yield problem("code", what, "no line of `setup` may change the folder or PYTHONPATH")
    elif environment.code_version() != Path(asked.code).name:
        what = f"{environment.code_version()}, but the snapshot is {Path(asked.code).name}"
        yield problem("code", what, f"no line of `setup` may set {environment.CODE_VERSION_VARIABLE}")
    else:
        yield ok("code", f"{environment.code_version()}, the snapshot that was submitted")


def _store(seen: Seen) -> Iterator[Finding]:
    folder, asked = seen
    here = slurm.own_node()
    yield ok("store", f"{asked.root}: {asked.host} and {here} see what the other writes")
    yield from place.root(Path(asked.root))
    yield _held(folder, asked.host, here)


def _held(folder: Path, there: str, here: str) -> Finding:
    """Whether the lock that the submitter holds keeps this process out."""
    advice = "mount the file system with flock (Lustre: -o flock) on all machines, or choose another --root"
    try:
        with open(folder.parent / HELD, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if there == socket.gethostname():
            return ok("locks", f"a lock of {there} keeps its jobs out; between machines it is not tried")
        return ok("locks", f"a lock that {there} holds keeps {here} out")
    except OSError as error:
        return problem("locks", f"flock fails: {error.strerror}", advice)
    return problem("locks", f"{here} gets a lock that {there} holds: flock works on one machine only", advice)


def seconds_ahead(folder: Path) -> float:
    """By how many seconds this machine's clock is ahead of that of the folder's file server."""
    probe = atomic.temporary_name(folder / "clock")
    before = time.time()
    probe.touch()
    after = time.time()
    there = probe.stat().st_mtime
    probe.unlink()
    return before - there if there < before else min(0.0, after - there)


def _clock(seen: Seen) -> Iterator[Finding]:
    folder, asked = seen
    store = seconds_ahead(folder)
    there = store - asked.ahead
    text = f"{_against(store)} the store's, {_against(there)} {asked.host}'s"
    advice = "ask your administrators to set that clock (NTP)"
    if max(abs(store), abs(there)) > HOURS:
        yield problem("clock", f"{text}: runs at work there would count as dead", advice)
    elif max(abs(store), abs(there)) > LATE:
        what = f"{text}: times in logs and in `sweep status` are wrong by that (heartbeats are not)"
        yield note("clock", what, advice)
    else:
        yield ok("clock", text)


def _against(seconds: float) -> str:
    if abs(seconds) > LATE:
        return f"{seconds:+.0f} s against"
    return f"within {max(0.1, abs(seconds)):.1f} s of"


def _cores(seen: Seen) -> Iterator[Finding]:
    usable, wanted = usable_cores(), int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
    text = f"{usable:g} usable, {wanted} asked for"
    if usable < wanted:
        yield problem("cores", text, LIMITS)
    else:
        yield ok("cores", text + (" (SLURM does not keep jobs to theirs)" if usable > wanted else ""))
    free, limit = machine.free_memory()
    text = f"{free / 2**30:.1f} of {limit / 2**30:.1f} GiB free"
    granted = _granted_memory()
    told = f"; {granted / 2**30:.1f} GiB granted" if granted else ""
    if limit < granted:
        yield problem("memory", text + told, LIMITS)
    elif free < granted:
        yield note("memory", text + told, "other programs on the node have some of it")
    else:
        yield ok("memory", text + told)


def _granted_memory() -> int:
    """Bytes that SLURM has granted on this node; 0 if it does not tell, or gives the whole node."""
    of_node, of_core = (os.environ.get(f"SLURM_MEM_PER_{name}", "") for name in ("NODE", "CPU"))
    if of_core.isdigit():
        return int(of_core) * int(os.environ.get("SLURM_CPUS_ON_NODE", "1")) * 2**20
    return int(of_node) * 2**20 if of_node.isdigit() else 0


def _slurm(seen: Seen) -> Iterator[Finding]:
    _, asked = seen
    missing = [name for name in ("scontrol", "squeue") if shutil.which(name) is None]
    if missing:
        what = f"no {' and no '.join(missing)} here: "
        what += "the job's script queues a run again, from outside" if "scontrol" in missing else ""
        what += "; " if len(missing) > 1 else ""
        what += "a run that another job left is taken over after 120 s" if "squeue" in missing else ""
        advice = "" if asked.contained else "put SLURM's commands on the PATH of jobs"
        yield (ok if asked.contained else note)("slurm", what, advice)
        return
    try:
        slurm.call("scontrol", "show", "job", "-o", slurm.own_job())
        slurm.queue()
    except slurm.SlurmError as error:
        yield problem("slurm", str(error), "without scontrol a run is not queued again before its time limit")
    else:
        yield ok("slurm", "scontrol and squeue answer")


def _data(seen: Seen) -> Iterator[Finding]:
    _, asked = seen
    parts.allow(asked.data)
    same = []
    for name, there in asked.data.items():
        try:
            here = tasks.fingerprint(name)
        except (UsageError, OSError) as error:
            yield problem("data", one_line(str(error)), f"{asked.host} can read it")
            continue
        if here == there:
            same.append(name)
        else:
            what = f"{name}: fingerprint {here}, but {there} on {asked.host}"
            advice = "runs would not begin there: give jobs the same files (HTBENCH_DATA) and the same Python"
            yield problem("data", what, advice)
    if same:
        yield ok("data", f"{', '.join(same)}: the same as on {asked.host}")


def _torch(seen: Seen) -> Iterator[Finding]:
    yield machine.load_torch()


def _gpus(seen: Seen) -> Iterator[Finding]:
    _, asked = seen
    promised, names = slurm.promised_gpus(), _names()
    if asked.on_cpu:
        yield ok("gpus", f"{promised} asked for, and runs have `device: cpu`")
    elif not promised:
        if names:
            advice = "SLURM does not hide them: runs would use them unless `base` has `device: cpu`"
            yield note("gpus", f"none asked for, but {_told(names)} can be used", advice)
        else:
            yield ok("gpus", "none, none asked for")
    elif (shown := _shown(len(names), promised, asked.processes)) < promised:
        listed = len(visible_gpus())
        what = f"{slurm.own_node()} shows torch {shown} of {promised} GPUs that were asked for"
        what += f", though SLURM gave the job {listed}" if listed > shown else ""
        advice = "torch must be built for its driver; `exclude: NODE` keeps off a node with a broken GPU"
        yield problem("gpus", what, advice)
    elif wrong := [f"{name} {said}" for name in range(len(names)) if (said := _multiplied(name))]:
        yield problem(
            "gpus", f"{_told(names)}; GPU {'; GPU '.join(wrong)}", "keep off this node with `exclude`"
        )
    else:
        more = "" if len(names) <= promised else f", {promised} asked for: SLURM does not hide the others"
        yield (note if more else ok)("gpus", f"{_told(names)}: a product on each is right{more}")


def _shown(seen: int, promised: int, processes: int) -> int:
    """How many GPUs the processes of a node have; on some clusters each sees its own only."""
    return min(promised, seen * processes) if processes > 1 else seen


def _names() -> list[str]:
    """The names of the GPUs that torch can use."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _told(names: list[str]) -> str:
    return " and ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


def _multiplied(number: int) -> str:
    """What is wrong with a small product on a GPU; empty if nothing is."""
    torch: Any = sys.modules["torch"]
    try:
        ones = torch.ones(256, 256, device=f"cuda:{number}")
        return "" if (ones @ ones).sum().item() == 256.0**3 else "multiplies wrongly"
    except RuntimeError as error:
        return f"can't multiply: {one_line(str(error).partition(chr(10))[0])}"


def _imports(seen: Seen) -> Iterator[Finding]:
    for name in IMPORTS:
        try:
            importlib.import_module(name)
        except ImportError as error:
            advice = "install what pyproject.toml of htbench names into the Python of the job"
            yield problem("imports", f"{name}: {one_line(str(error))}", advice)
            return
    yield ok("imports", "all that a job loads is there")


CHECKS: Mapping[str, Callable[[Seen], Iterator[Finding]]] = {
    "python": _python,
    "code": _code,
    "store": _store,
    "clock": _clock,
    "cores": _cores,
    "slurm": _slurm,
    "data": _data,
    "torch": _torch,  # from here on what may take long, or kill the process
    "gpus": _gpus,
    "imports": _imports,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
