"""A copy of this code in the store, from which jobs run: editing the code afterwards doesn't change them.

    <root>/code/<version>/             tracked and untracked, not ignored files
    <root>/code/<version>/outside/     a user's own optimizers, models and tasks, next on the jobs' path

The version is that of `harness.system.environment` and a hash of what the files hold: git counts no
untracked ones.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.config import RunConfig, parts
from harness.display import memory
from harness.errors import UsageError
from harness.store.layout import code_folder
from harness.system import environment
from harness.system.atomic import temporaries, temporary_name
from harness.system.environment import HOME, PACKAGES
from harness.system.folders import make_folder

LARGEST = 200 * 2**20  # bytes of a whole snapshot; the code alone is a hundredth of that
OUTSIDE = Path("outside")


def version(root: Path, configs: Iterable[RunConfig] = ()) -> str:
    """The name of a snapshot of the code as it is now.

    Args:
        root: the store.
        configs: of the runs that use it.
    """
    if HOME.parent == code_folder(root).resolve():
        return HOME.name  # a job submits, and runs from a snapshot
    return _name(_digest(_files(root, configs)))


def take(root: Path, configs: Iterable[RunConfig] = ()) -> Path:
    """Copy the code as it is now, unless there is a copy; its folder. For the arguments see `version`."""
    configs = list(configs)
    folder = code_folder(root) / version(root, configs)
    if folder.exists():
        return folder
    make_folder(folder.parent)
    for leftover in temporaries(folder.parent, folder.name):
        shutil.rmtree(leftover, ignore_errors=True)  # of a process that died here; submissions hold a lock
    temporary = temporary_name(folder)
    files = _files(root, configs)
    for path, source in files.items():
        target = temporary / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)  # without its mode, so that others of a group can read it
    copied = {path: temporary / path for path in files}
    folder = folder.with_name(_name(_digest(copied)))  # the code may have been edited since
    if folder.exists():
        shutil.rmtree(temporary)
    else:
        os.replace(temporary, folder)
    return folder


def _name(digest: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", environment.code_version()) + f".{digest}"


def _files(root: Path, configs: Iterable[RunConfig]) -> dict[Path, Path]:
    """The files of a snapshot: path in it -> file now."""
    store = root.resolve()
    found = {path: HOME / path for path in _ours()}
    found |= {OUTSIDE / path: source for path, source in parts.files(configs).items()}
    files = {
        path: source
        for path, source in sorted(found.items())
        if source.is_file() and not source.resolve().is_relative_to(store)
    }
    sizes = {source: source.stat().st_size for source in files.values()}
    if sum(sizes.values()) > LARGEST:
        size, largest = memory(sum(sizes.values())), max(sizes, key=sizes.__getitem__)
        raise UsageError(
            f"A copy of the code for jobs would take {size}, the largest file being '{largest}'; "
            f"let git ignore what is not code, and keep data out of packages of your own."
        )
    return files


def _ours() -> set[Path]:
    """The files of htbench, relative to its home; without git, the packages as installed."""
    if (HOME / ".git").exists():
        words = [*environment.git(HOME), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        try:
            listed = subprocess.run(words, check=True, capture_output=True, timeout=60).stdout
        except (OSError, subprocess.SubprocessError) as error:
            said = os.fsdecode(getattr(error, "stderr", None) or str(error).encode())
            raise UsageError(f"git can't list the files of '{HOME}': {' '.join(said.split())}") from None
        paths = [Path(os.fsdecode(name)) for name in listed.split(b"\0") if name]
    else:
        found = (path for package in PACKAGES for path in (HOME / package).rglob("*"))
        paths = [path.relative_to(HOME) for path in found if "__pycache__" not in path.parts]
        paths.append(Path("htbench.py"))
    return set(paths)


def _digest(files: Mapping[Path, Path]) -> str:
    digest = hashlib.sha256()
    for path, source in files.items():
        content = source.read_bytes()
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:8]
