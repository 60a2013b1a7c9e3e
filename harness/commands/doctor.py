"""`htbench doctor`: checks this machine and the store and prints advice. It repairs nothing.

Each check is a function that yields findings. An exception in a check becomes a finding as well.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import psutil

from harness.data import registry as tasks
from harness.data.cache import MANIFEST, damaged
from harness.display import document
from harness.errors import UsageError
from harness.store import Store
from harness.store.integrity import AGAIN
from harness.store.layout import cache_folder
from harness.store.points import SOURCE, sweep_folder
from harness.system import atomic, environment
from harness.system.machine import ask, cgroup_limits, usable_cores
from harness.upkeep.check import Survey, survey

CPU_BUILD = "pip install 'torch>=2.9,<2.14' --index-url https://download.pytorch.org/whl/cpu"
WORKER_BYTES = 0.35 * 2**30  # memory of one worker on a nano model; measured: 0.28 GiB
LITTLE_SPACE, NO_SPACE = 5 * 2**30, 2**28  # free bytes below which: a note, a problem


@dataclass(frozen=True)
class Finding:
    """One line of the report. Levels: ok; note: works, with a remark; problem: something will not work."""

    level: Literal["ok", "note", "problem"]
    subject: str
    finding: str
    advice: str = ""


Check = Callable[[Path], Iterator[Finding]]
_ok, _note, _problem = (partial(Finding, level) for level in ("ok", "note", "problem"))


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--data`."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--data", action="store_true", help="read all prepared data and check its digests")


def doctor(args: argparse.Namespace) -> int:
    """Print the findings; return exit status 1 if one is a problem, else 0."""
    report = examine(args.root, CHECKS + (_digests,) * args.data)
    if args.json:
        print(document([asdict(one) for one in report]))
    else:
        for one in report:
            print(f"{one.level:8} {one.subject:8} {one.finding}")
            if one.advice:
                print(f"{'':17} -> {one.advice}")
    return 1 if any(one.level == "problem" for one in report) else 0


def examine(root: Path, checks: Sequence[Check] | None = None) -> list[Finding]:
    """All findings, in a fixed order.

    Args:
        root: the store; it need not exist.
        checks: None: CHECKS.
    """
    checks = checks or CHECKS
    with ThreadPoolExecutor(len(checks)) as pool:  # most checks wait for torch or SLURM
        return [one for found in pool.map(partial(_guarded, root), checks) for one in found]


def _guarded(root: Path, check: Check) -> list[Finding]:
    try:
        return list(check(root))
    except Exception as error:  # the command must report on any machine
        what = f"could not be looked at: {type(error).__name__}: {error}"
        return [_problem(check.__name__.strip("_"), what)]


# --- the machine ---


def _python(root: Path) -> Iterator[Finding]:
    yield _ok("python", f"{platform.python_version()} in {sys.prefix}, {platform.platform()}")
    yield _ok("code", f"{environment.code_version()} in {environment.HOME}")


def _cores(root: Path) -> Iterator[Finding]:
    total, usable = os.cpu_count() or 1, usable_cores()
    yield _ok("cores", f"{total}, of which this process may use {usable:g}")
    memory = psutil.virtual_memory()
    limit = min([memory.total, *(int(words[0]) for words in cgroup_limits("memory.max"))])
    free = min(memory.available, limit)
    text = f"{free / 2**30:.1f} of {limit / 2**30:.1f} GiB free"
    if free < WORKER_BYTES * min(usable, 8):
        yield _note("memory", text, f"use --workers {max(1, int(free / WORKER_BYTES))}")
    else:
        yield _ok("memory", text)


def _torch(root: Path) -> Iterator[Finding]:
    gpus = yield from _gpus()
    began = time.monotonic()
    try:
        import torch
    except (ImportError, OSError) as error:
        yield _problem("torch", f"can't be imported: {error}", "install it again, into this environment")
        return
    cuda = torch.version.cuda or torch.version.hip
    text = f"{torch.__version__} ({f'built for {cuda}' if cuda else 'CPU build'}), "
    text += f"loaded in {time.monotonic() - began:.1f} s"
    if gpus and not cuda:
        yield _note("torch", text, "it can't use the GPU; see https://pytorch.org/get-started/locally")
    elif gpus and not torch.cuda.is_available():
        yield _problem("torch", f"{text}; it can't reach the GPU", "its CUDA may be too new for the driver")
    elif cuda and not torch.cuda.is_available():
        yield _note("torch", text, f"without a GPU, the CPU build saves gigabytes: {CPU_BUILD}")
    else:
        yield _ok("torch", text)


def _gpus() -> Generator[Finding, None, list[str]]:
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shutil.which("nvidia-smi") is None or hidden in ("", "-1"):
        yield _ok("gpus", "none" + (" (CUDA_VISIBLE_DEVICES hides them)" if hidden in ("", "-1") else ""))
        return []
    worked, text = ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if not worked:
        yield _problem("gpus", f"nvidia-smi fails: {_line(text)}", "runs use the CPU until it works")
        return []
    shown = f"; CUDA_VISIBLE_DEVICES={hidden}" if hidden else ""
    yield _ok("gpus", " | ".join(text.splitlines()) + shown)
    return text.splitlines()


def _slurm(root: Path) -> Iterator[Finding]:
    commands = ("sinfo", "sbatch", "squeue")
    missing = [name for name in commands if shutil.which(name) is None]
    if len(missing) == len(commands):
        yield _ok("slurm", "not on this machine; sweeps run locally")
        return
    if missing:
        yield _note("slurm", f"lacks {', '.join(missing)} on the PATH", "load your site's SLURM module")
    if "sinfo" not in missing:
        yield _controller()
    if "SLURM_JOB_ID" not in os.environ:
        advice = "on a login node, train in an allocation: srun --cpus-per-task=8 --time=60 --pty bash"
        yield _note("slurm", "this shell is not inside an allocation", advice)
    if shutil.which("sacct") is None:
        yield _note("sacct", "not on the PATH")
        return
    worked, text = ask("sacct", "--noheader", "--allocations", "--starttime=now", "--format=JobID")
    yield _ok("sacct", "answers") if worked else _note("sacct", f"does not answer: {_line(text)}")


def _controller() -> Finding:
    worked, text = ask("sinfo", "--noheader", "--format=%P")
    if worked:
        return _ok("slurm", f"the controller answers; partitions: {' '.join(text.split())}")
    advice = "ask your administrators; runs on this machine don't need it"
    return _problem("slurm", f"the controller does not answer: {_line(text)}", advice)


def _line(text: str) -> str:
    """Join the lines of an error message, because a finding is printed on one line."""
    return " ".join(text.split())


# --- the store ---


def _root(root: Path) -> Iterator[Finding]:
    whole = root.absolute()
    place = next(folder for folder in (whole, *whole.parents) if folder.exists())
    elsewhere = "choose another place with --root or HTBENCH_ROOT"
    yield _space(place)
    try:
        with tempfile.TemporaryDirectory(prefix=".htbench-doctor-", dir=place) as folder:
            yield _ok("root", f"{whole} {'is' if place == whole else 'can be made and is'} writable")
            yield _locks(Path(folder))
            yield _links(Path(folder))
    except OSError as error:
        yield _problem("root", f"{whole} is not writable: {error.strerror}", f"to train, {elsewhere}")


def _space(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:.1f} GiB free ({_mount(place)[0]})"
    if free < NO_SPACE:
        return _problem("disk", text, "make room; a run that meets a full disk stops and can go on later")
    if free < LITTLE_SPACE:
        return _note("disk", text, "enough for nano models; checkpoints of large ones take gigabytes")
    return _ok("disk", text)


def _mount(place: Path) -> tuple[str, list[str]]:
    """The type of the file system that holds `place`, and its mount options."""
    mounts = [p for p in psutil.disk_partitions(all=True) if place.resolve().is_relative_to(p.mountpoint)]
    if not mounts:
        return "unknown file system", []
    found = max(mounts, key=lambda p: len(p.mountpoint))
    return found.fstype, found.opts.split(",")


def _locks(folder: Path) -> Finding:
    """Check that `flock` excludes a second holder. Plans and caches are written under such locks."""
    local = {"localflock", "nolock", "local_lock=flock", "local_lock=all"}.intersection(_mount(folder)[1])
    advice = "mount the file system with flock (Lustre: -o flock), or choose another --root"
    try:
        # On NFS an exclusive lock needs a file that is open for writing.
        with atomic.locked(folder / "lock"), open(folder / "lock", "a") as second:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if local:
            return _note("locks", f"flock works on this machine only ({', '.join(local)})", advice)
        return _ok("locks", "flock works")
    except OSError as error:
        return _problem("locks", f"flock fails: {error.strerror}", advice)
    return _problem("locks", "flock lets two processes in at once", advice)


def _links(folder: Path) -> Finding:
    """Check that only the first of two creations of one file succeeds. The store creates by hard links."""
    advice = "choose a --root on a file system that has hard links"
    try:
        wins = [atomic.create_json(folder / "once.json", {}) for _ in range(2)]
    except OSError as error:
        return _problem("links", f"hard links fail: {error.strerror}", advice)
    if wins != [True, False]:
        return _problem("links", f"of two creators {sum(wins)} won instead of one", advice)
    return _ok("links", "hard links work")


def _store(root: Path) -> Iterator[Finding]:
    found = survey(root)
    own = [name for name in found.sweeps if not (sweep_folder(root, name) / SOURCE).exists()]
    mend = f"htbench sweep index {' '.join(own) or 'SPEC'} --root {shlex.quote(str(root))}"
    runs = f"{found.runs} runs" + (f" ({found.packed} in archives)" if found.packed else "")
    text = f"{runs}, {len(found.records)} records, {len(found.sweeps)} sweeps"
    yield _ok("store", text if found.runs or found.sweeps else "nothing stored yet")
    if not found.complete:
        yield _note("store", "it is large: the lines below are about the records counted above")
    unpack = f"htbench runs unpack --all --root {shlex.quote(str(root))}"
    advice = {
        "archive": f"`{unpack}` brings back what can be read; `htbench sweep run` trains the rest again",
        "record": f"`{mend}` restores what index.jsonl has; `htbench sweep run` trains the rest again",
        "points": f"`{mend}` writes them again",
        "study": f"`{mend}` writes them again",
        "slot": f"`{mend}` fills them again with the trials of their studies",
        "submissions": "nothing to do: a lost line costs at most some jobs that find their runs done",
        "attempt": "nothing to do: such a run is taken over when its heartbeat is two minutes old",
    }
    for kind, paths in found.damaged.items():
        level = _note if kind in ("attempt", "submissions") else _problem
        yield level("store", f"damaged {kind} files: {_first_three(paths)}", advice[kind])
    yield from _records(found, root)
    yield from _index(found, mend)
    if found.leftovers:
        text = f"temporary files of dead processes: {_first_three(found.leftovers)}"
        yield _note("store", text, "harmless; delete them when nothing runs")


def _records(found: Survey, root: Path) -> Iterator[Finding]:
    """Report each run whose record is lost or contradicts its curve."""
    store = Store(root)
    for key, what in found.faults.items():
        delete = f"delete {shlex.quote(str(store.run_folder(key)))}"
        if key in store.packed.look().runs:
            delete = f"`htbench runs unpack {key}`, then {delete}"
        advice = "" if AGAIN in what else f"{delete}: then the same command trains the run again"
        yield _problem("records", f"run {key}: {what}", advice)
    if found.without_curve:
        text = f"completed runs without metrics.jsonl: {_first_three(found.without_curve)}"
        yield _note("records", text, "nothing vouches for their figures")


def _index(found: Survey, mend: str) -> Iterator[Finding]:
    lacking = [key for key, size in found.records.items() if found.index.get(key) != size]
    gone = found.index.keys() - found.records.keys() if found.complete else set()
    if lacking or gone or found.torn_index_lines:
        text = f"index.jsonl lacks {len(lacking)} records, has {len(gone)} whose run has none"
        yield _note("index", f"{text}, and {found.torn_index_lines} torn lines", f"`{mend}` writes it anew")
    elif differing := [key for key in found.differing if key not in lacking]:
        text = f"index.jsonl has other figures than record.json for {_first_three(differing)}"
        yield _problem("index", text, f"`{mend}` writes it anew from the records")
    elif found.records:
        yield _ok("index", "index.jsonl agrees with the run folders")


def _first_three(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _data(root: Path) -> Iterator[Finding]:
    for name in tasks.TASKS:
        try:
            yield _ok("data", f"{name}: fingerprint {tasks.fingerprint(name)}")
        except UsageError as error:
            yield _problem("data", str(error))


def _digests(root: Path) -> Iterator[Finding]:
    """Read every prepared set; a run looks at sizes only."""
    for folder in sorted(path.parent for path in cache_folder(root).glob(f"[!.]*/{MANIFEST}")):
        wrong = damaged(folder)
        for name in wrong:
            what = f"'{folder / name}' is missing or damaged"
            yield _problem(
                "data", what, "delete it and prepare again: `htbench data prepare`, or the next run"
            )
        if not wrong:
            yield _ok("data", f"'{folder}': all digests agree")


CHECKS = (_python, _cores, _torch, _slurm, _root, _store, _data)
