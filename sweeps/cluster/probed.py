"""What a job of `htbench doctor --sbatch` does: `python -m sweeps.cluster.probed FOLDER WORD`.

The first process of each node looks at what a run there would meet. It writes its findings after each check,
so that a check which ends or holds up the process can be named.
"""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import tasks
from harness.config import parts
from harness.errors import UsageError
from harness.show.note import Note
from harness.show.numbers import plain
from harness.system import atomic, environment, place, slurm
from harness.system import checks as machine
from harness.system.finding import Finding, guarded, note, ok, one_line, problem
from harness.system.machine import usable_cores, visible_gpus
from harness.train.monitor import STOP_SIGNALS

ASKED, HELD = "asked.json", "held"  # files of a job's folder, and of the one above it
REPORT = "node-*.json"
LATE, HOURS = 5.0, 3600.0  # seconds by which a clock is off: a note, a problem (`harness/store/owner.py`)
# What a real job loads.
IMPORTS = ("sweeps.cluster.job", "sweeps.studies.trial")


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
    report = {"node": slurm.own_node(), "at": at, "findings": plain(found)}
    number = os.environ.get("SLURM_NODEID", "0")
    atomic.write_json(folder / REPORT.replace("*", number), report)


# --- checks ---

Seen = tuple[Path, Asked]


def _python(seen: Seen) -> Iterator[Finding]:
    yield ok("python", f"{platform.python_version()}, {sys.executable}, {platform.platform()}")


def _code(seen: Seen) -> Iterator[Finding]:
    _, asked = seen
    now, then = environment.code_version(), Path(asked.code).name
    if Path(asked.code).resolve() != environment.HOME:
        what = Note("code_of_another_folder", home=environment.HOME, code=asked.code)
        yield problem("code", what, Note("keep_folder_and_path"))
    elif now != then:
        advice = Note("keep_code_version", name=environment.CODE_VERSION_VARIABLE)
        yield problem("code", Note("code_of_another_version", now=now, then=then), advice)
    else:
        yield ok("code", Note("code_as_submitted", code=now))


def _store(seen: Seen) -> Iterator[Finding]:
    folder, asked = seen
    machines = {"there": asked.host, "here": slurm.own_node()}
    yield ok("store", Note("store_is_shared", root=asked.root, **machines))
    yield from place.root(Path(asked.root))
    advice = Note("mount_with_flock")
    try:  # whether the lock that the submitter holds keeps this process out
        with open(folder.parent / HELD, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield problem("locks", Note("lock_of_two", **machines), advice)
    except BlockingIOError:
        alone = asked.host == socket.gethostname()
        yield ok("locks", Note("lock_holds_here" if alone else "lock_holds", **machines))
    except OSError as error:
        yield problem("locks", Note("lock_fails", why=error.strerror), advice)


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
    against = [
        Note("clock_off", seconds=seconds)
        if abs(seconds) > LATE
        else Note("clock_right", seconds=max(0.1, abs(seconds)))
        for seconds in (store, there)
    ]
    off = max(abs(store), abs(there))
    level, kind = (problem, "clock_kills") if off > HOURS else (note, "clock_misleads")
    if off <= LATE:
        level, kind = ok, "clock"
    what = Note(kind, store=against[0], submitter=against[1], host=asked.host)
    yield level("clock", what, Note("set_that_clock") if off > LATE else "")


def _cores(seen: Seen) -> Iterator[Finding]:
    usable, wanted = usable_cores(), int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
    limits = Note("look_at_limits")
    what = Note("cores_of_job", usable=usable, wanted=wanted, more=usable > wanted)
    yield problem("cores", what, limits) if usable < wanted else ok("cores", what)
    free, limit = machine.free_memory()
    granted = _granted_memory()
    what = Note("memory_of_job", free=free / 2**30, limit=limit / 2**30, granted=granted / 2**30)
    if limit < granted:
        yield problem("memory", what, limits)
    elif free < granted:
        yield note("memory", what, Note("memory_of_others"))
    else:
        yield ok("memory", what)


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
        kinds = {"scontrol": "without_scontrol", "squeue": "without_squeue"}
        what = [Note(kinds[name]) for name in missing]
        advice = "" if asked.contained else Note("slurm_on_path")
        level = ok if asked.contained else note
        yield level("slurm", Note("slurm_lacks", missing=missing, then=what), advice)
        return
    try:
        slurm.call("scontrol", "show", "job", "-o", slurm.own_job())
        slurm.queue()
    except slurm.SlurmError as error:
        yield problem("slurm", str(error), Note("slurm_is_silent"))
    else:
        yield ok("slurm", Note("slurm_answers"))


def _data(seen: Seen) -> Iterator[Finding]:
    _, asked = seen
    parts.allow(asked.data)
    same = []
    for name, there in asked.data.items():
        try:
            here = tasks.fingerprint(name)
        except (UsageError, OSError) as error:
            yield problem("data", one_line(str(error)), Note("data_there", host=asked.host))
            continue
        if here == there:
            same.append(name)
        else:
            what = Note("data_of_another", task=name, here=here, there=there, host=asked.host)
            yield problem("data", what, Note("give_same_data"))
    if same:
        yield ok("data", Note("data_as_there", tasks=same, host=asked.host))


def _torch(seen: Seen) -> Iterator[Finding]:
    yield machine.load_torch()


def _gpus(seen: Seen) -> Iterator[Finding]:
    _, asked = seen
    promised, names = slurm.promised_gpus(), _names()
    counts = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    # On some clusters each process of a node sees its own GPU only.
    shown = min(promised, len(names) * asked.processes) if asked.processes > 1 else len(names)
    if asked.on_cpu:
        yield ok("gpus", Note("gpus_of_cpu_runs", promised=promised))
    elif not promised and names:
        yield note("gpus", Note("gpus_not_hidden", gpus=counts), Note("hide_gpus"))
    elif not promised:
        yield ok("gpus", Note("gpus_none"))
    elif shown < promised:
        listed = len(visible_gpus())
        given = listed if listed > shown else 0
        what = Note("gpus_missing", node=slurm.own_node(), shown=shown, promised=promised, given=given)
        yield problem("gpus", what, Note("mend_gpus"))
    elif wrong := [f"{name} {said}" for name in range(len(names)) if (said := _multiplied(name))]:
        yield problem("gpus", Note("gpus_wrong", gpus=counts, wrong=wrong), Note("keep_off_node"))
    else:
        more = promised if len(names) > promised else 0
        yield (note if more else ok)("gpus", Note("gpus_right", gpus=counts, promised=more))


def _names() -> list[str]:
    """The names of the GPUs that torch can use."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


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
            what = Note("import_fails", module=name, why=one_line(str(error)))
            yield problem("imports", what, Note("install_what_jobs_need"))
            return
    yield ok("imports", Note("imports_work"))


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
