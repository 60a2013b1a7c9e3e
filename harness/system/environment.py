"""The environment of a run: code, versions, hardware. Part of every record; never loads torch itself."""

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import socket
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import htbench
from htbench.harness.errors import UsageError
from htbench.harness.system.machine import ask, gpu_driver, usable_cores

CODE_VERSION_VARIABLE = "HTBENCH_CODE_VERSION"  # a pool asks git once and sets it for its workers
HOME = Path(__file__).resolve().parents[2]  # of the code that this process runs: where the packages lie
PACKAGE = Path(htbench.__file__).resolve().parent  # what is imported; in a clone it has links to the packages
CODE = PACKAGE.parent  # the folder from which this process imports htbench
PACKAGES = ("harness", "sweeps", "optimizers", "models", "results")
CPU_FLAGS = ("fma", "avx2", "avx512f", "avx512_bf16", "amx_bf16")  # decide how fast matrices are multiplied
BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # the last one is Arm's
_LIBRARIES = ("torch", "numpy", "optuna", "tokenizers", "datasets")


def git(home: Path) -> tuple[str, ...]:
    """The git command for the code in `home`, also if the files belong to another user."""
    return "git", "-c", "safe.directory=*", "-C", str(home)


@functools.cache
def code_version() -> str:
    """The commit of this code; `<commit>+<digest>` if packages differ from it; without git, our version.

    The digest is over the changed and the untracked, not ignored, files of the packages: two edits are two
    versions.
    """
    version = os.environ.get(CODE_VERSION_VARIABLE)
    if version:
        return version
    answered, commit = ask(*git(HOME), "rev-parse", "--short=12", "HEAD")
    if not answered or not (HOME / ".git").exists():
        return f"htbench {_version('htbench')}"
    paths = {
        *_listed("diff", "--name-only", "--no-renames", "-z", "HEAD", "--", *PACKAGES, "src"),
        *_listed("ls-files", "--others", "--exclude-standard", "-z", "--", *PACKAGES, "src"),
    }
    digest = hashlib.sha256()
    for path in sorted(paths):  # a deleted file has no content
        file = HOME / path
        digest.update(f"{path}\0".encode() + (file.read_bytes() if file.is_file() else b"gone"))
    return f"{commit}+{digest.hexdigest()[:8]}" if paths else commit


def _listed(*words: str) -> list[str]:
    answered, names = ask(*git(HOME), *words)
    return [name for name in names.split("\0") if name] if answered else []


@functools.cache
def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def require(extra: str, *modules: str) -> None:
    """Raise UsageError unless these modules are installed, which an extra of the package brings.

    A mere folder of that name does not count: wandb, for example, makes a folder `wandb`.
    """
    for module in modules:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise UsageError(f"{module} is not installed; `pip install 'htbench[{extra}]'` brings it.")


@functools.cache
def program(module: str) -> tuple[str, ...]:
    """The words that call `main` of a module of ours in a new Python, as text; it gets the words after these.

    As in the command: the working folder, which comes first there, may have modules called like ours.
    """
    before = "import sys; sys.path[:] = [place for place in sys.path if place]"
    return sys.executable, "-c", f"{before}; from {module} import main; sys.exit(main(*sys.argv[1:]))"


@contextlib.contextmanager
def our_code_only() -> Iterator[None]:
    """Let each Python that is started meanwhile import the same copy of our code as this process.

    The working folder is left out of its `sys.path`, where it would come first: a file there may be called as
    a module of ours or of Python, such as `subprocess.py`. Python 3.10 has no way to leave it out.
    """
    variables = {"PYTHONSAFEPATH": "1"}
    if str(CODE) != sysconfig.get_path("purelib"):  # purelib is on sys.path anyway
        before_others = [str(CODE), os.environ.get("PYTHONPATH")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, before_others))
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _cpuinfo(*names: str) -> list[str]:
    """What Linux says of the processors, a value of these names after the other; nothing elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2] for line in lines if line.startswith(names)]


def describe(device: str, fingerprint: str, world_size: int = 1) -> dict[str, Any]:
    """The `environment` of a record.

    Args:
        device: `cpu` or `cuda`.
        fingerprint: of the data.
        world_size: number of processes of the run.
    """
    torch, gpu = sys.modules.get("torch"), dict[str, str]()
    if device == "cuda" and torch is not None:
        gpu = {
            "gpu": torch.cuda.get_device_name(),
            "driver": gpu_driver(),
            "cuda": str(torch.version.cuda),
        }
    return {
        "code": code_version(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "cpu": next(iter(_cpuinfo("model name")), "").strip() or platform.processor() or platform.machine(),
        "cores": usable_cores(),
        "device": device,
        **gpu,
        "world_size": world_size,
        "data_fingerprint": fingerprint,
    }


def describe_with_cpu_flags(device: str) -> dict[str, Any]:
    """`describe`, the instruction set of the loaded torch, and which of CPU_FLAGS the processor has.

    `native_bfloat16` says whether the device multiplies in bfloat16; None where nobody can tell.
    """
    flags = {flag for flags in _cpuinfo("flags", "Features") for flag in flags.split()}
    native = bool(flags & BFLOAT16_FLAGS) if flags else None
    if device == "cuda":
        native = sys.modules["torch"].cuda.is_bf16_supported(including_emulation=False)
    return {
        **describe(device, ""),
        "cpu_capability": sys.modules["torch"].backends.cpu.get_cpu_capability(),
        "cpu_flags": {flag: flag in flags for flag in CPU_FLAGS} if flags else None,
        "native_bfloat16": native,
    }
