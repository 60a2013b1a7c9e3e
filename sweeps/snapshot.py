"""A copy of this code in the store, from which jobs run: editing the code afterwards doesn't change them.

    <root>/code/<version>/      tracked and untracked, not ignored files

The version is that of `harness.environment` and a hash of what the files hold: git counts no untracked ones.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from harness import environment
from harness.atomic import temporaries, temporary_name
from harness.environment import HOME, PACKAGES
from harness.errors import UsageError
from harness.store import make_folder
from harness.wording import memory

LARGEST = 200 * 2**20  # bytes of a whole snapshot: code is a hundredth of that, data belong elsewhere


def version(root: Path) -> str:
    """The name of a snapshot of the code as it is now."""
    if HOME.parent == (root / "code").resolve():
        return HOME.name  # a job submits: its code is a snapshot already
    return _name(_digest(HOME, _files(root)))


def take(root: Path) -> Path:
    """The folder of the snapshot of the code as it is now, made unless it is there."""
    folder = root / "code" / version(root)
    if folder.exists():
        return folder
    make_folder(folder.parent)
    for leftover in temporaries(folder.parent, folder.name):
        shutil.rmtree(leftover, ignore_errors=True)  # of a process that died here; submissions hold a lock
    temporary = temporary_name(folder)
    paths = _files(root)
    for path in paths:
        target = temporary / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HOME / path, target)  # not its mode: others of a group must be able to read it
    folder = folder.with_name(_name(_digest(temporary, paths)))  # somebody may have edited it meanwhile
    if folder.exists():
        shutil.rmtree(temporary)
    else:
        os.replace(temporary, folder)
    return folder


def _name(digest: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", environment.code_version()) + f".{digest}"


def _files(root: Path) -> list[Path]:
    """What belongs to the code, relative to its home; without git, the packages as installed."""
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
    store = root.resolve()
    files = sorted(
        path for path in set(paths) if (HOME / path).is_file() and not (HOME / path).is_relative_to(store)
    )
    sizes = {path: (HOME / path).stat().st_size for path in files}
    if sum(sizes.values()) > LARGEST:
        size, largest = memory(sum(sizes.values())), HOME / max(files, key=sizes.__getitem__)
        raise UsageError(
            f"A copy of the code for jobs would take {size}, the largest file being '{largest}'; "
            f"let git ignore what is not code."
        )
    return files


def _digest(home: Path, paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        content = (home / path).read_bytes()
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:8]
