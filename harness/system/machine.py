"""The cores, memory and GPUs that this process may use, and calls of other programs with a time limit."""

import contextlib
import ctypes
import gc
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from htbench.harness.show.note import Note

# What tells a process its GPUs; the first that is set counts. On GPUs of AMD, HIP reads CUDA_VISIBLE_DEVICES
# only without its own, and in either a number is one among the GPUs that ROCR_VISIBLE_DEVICES leaves. SLURM
# sets the last two there, on some sites CUDA's, too. (ROCm, "GPU isolation techniques"; SLURM, gres.conf)
GPU_VARIABLES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
# By the first number of CUDA: CUDA Toolkit release notes, "minor version compatibility".
_OLDEST_DRIVER = {"11": 450, "12": 525, "13": 580}
_DEV, _DRIVER = Path("/dev"), Path("/proc/driver/nvidia/version")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h of glibc
PATIENCE = 3.0  # seconds: a controller or a driver that is down must not block us


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Rows are no garbage: to look through all of them again and again takes a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def keep_memory() -> None:
    """From now on glibc keeps freed memory for the next use, for all but the largest blocks.

    It gives a step's activations back to the system, which fills their pages with zeros at the next step: 130
    to 260 pages a step of the embedded models, a twentieth to a sixth of its time. Threads that start later
    share what is kept, else each of a stack's sixteen holds on to a part: 1.8 GB in place of .6.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library has no `mallopt`
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, 2**30)
        mallopt(_M_MMAP_THRESHOLD, 2**25)  # the most that it takes
        mallopt(_M_ARENA_MAX, 1)


def usable_cores() -> float:
    """The number of cores that this process may use, by its affinity and its cgroup's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [int(quota) / int(period) for quota, period in cgroup_limits("cpu.max")]
    return min([cores, *quotas])


def default_workers() -> int:
    """The default number of processes at a time: the usable cores, at most 8."""
    return max(1, min(int(usable_cores()), 8))


def visible_gpus() -> list[str]:
    """The GPUs that runs may use, as `gpu_variable` names them, without loading torch."""
    names = os.environ.get(gpu_variable())
    if names is not None:
        return [name for name in names.split(",") if name.strip()]
    answered, listed = ask("nvidia-smi", "-L")
    return [str(i) for i, _ in enumerate(re.findall(r"^GPU ", listed, re.MULTILINE))] if answered else []


def gpu_variable() -> str:
    """The variable that tells this process its GPUs, and by which it gives some of them to others."""
    return next((name for name in GPU_VARIABLES if name in os.environ), "CUDA_VISIBLE_DEVICES")


def has_gpu() -> bool:
    """Whether there seems to be a GPU of any vendor, even without `nvidia-smi`, as in some containers."""
    devices = (Path("/dev/nvidia0"), Path("/dev/kfd"))
    hidden = gpu_variable() in os.environ
    return bool(visible_gpus()) or (not hidden and any(device.exists() for device in devices))


def hides_gpus() -> bool:
    """Whether a variable hides all GPUs from this process; SLURM's "NoDevFiles" is for jobs without any."""
    return os.environ.get(gpu_variable()) in ("", "-1", "NoDevFiles")


def gpu_driver() -> str:
    """The version of NVIDIA's driver if it shows this process a GPU, of use to torch or not; else empty.

    `nvidia-smi` knows, but is not in every container, and fails while library and driver differ. The kernel's
    file is there in containers without GPUs, too, and devices that a cgroup keeps from us can't be opened.
    """
    if hides_gpus():
        return ""
    answered, text = ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if not answered and any(map(_opens, _DEV.glob("nvidia[0-9]*"))) and _DRIVER.exists():
        text = _DRIVER.read_text()
    version = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return version[0] if version else ""


def unused_gpu(torch: str, cuda: str | None) -> Note | None:
    """That this process is shown a GPU of NVIDIA, and the driver that torch needs for it, if it is newer.

    Args:
        torch: the version of a torch that sees no GPU.
        cuda: for which it is built; None: for another device.
    """
    driver = gpu_driver()
    if not driver:
        return None
    needed = _OLDEST_DRIVER.get((cuda or "").partition(".")[0], 0)
    fits = int(driver.partition(".")[0]) >= needed
    return Note("gpu_unused", driver=driver, torch=torch, cuda=cuda, needed=None if fits else needed)


def _opens(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True


def cgroup_limits(name: str) -> list[list[str]]:
    """The limits, as words, in the file `name` of this process's cgroup (version 2) and of those above it."""
    top, membership = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
    path = re.search(r"^0::/(.*)$", membership.read_text(), re.MULTILINE) if membership.exists() else None
    folder = top / path[1] if path else top
    files = [place / name for place in (folder, *folder.parents) if place.is_relative_to(top)]
    limits = [file.read_text().split() for file in files if file.is_file()]
    return [words for words in limits if words[0] != "max"]


def ask(
    *command: str,
    patience: float | None = None,
    input_text: str = "",
    environment: Mapping[str, str] | None = None,
    remarks: bool = True,
) -> tuple[bool, str]:
    """Whether a command succeeded, and what it printed or why it failed.

    Args:
        command: the program and its words.
        patience: seconds it gets; None: PATIENCE.
        input_text: what it reads on its standard input.
        environment: its variables; None: ours.
        remarks: whether what it printed includes its standard error, even if it succeeded.
    """
    patience = patience or PATIENCE
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if input_text else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if remarks else subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        return False, str(error.strerror)
    try:
        printed, aside = process.communicate(input_text or None, timeout=patience)
    except subprocess.TimeoutExpired:
        # Kill the whole group: otherwise we would wait for a child that has the pipe open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output = ""
        # SIGKILL does not end a process that waits in a driver.
        with contextlib.suppress(subprocess.TimeoutExpired):
            printed, aside = process.communicate(timeout=0.5)
            output = f"{aside or ''}{printed}".strip()  # may tell what it waits for
        return False, f"no answer within {patience:g} s" + (f": {output}" if output else "")
    if process.returncode == 0:
        return True, printed.strip()
    output = f"{aside or ''}{printed}".strip()
    return False, output or f"exit status {process.returncode}"
