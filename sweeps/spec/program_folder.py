"""The folder of a program: what is copied of it into the store, and what its code is. Torch-free.

<root>/programs/<files>/    a copy, in which the program runs
"""

import contextlib
import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path

from htbench.harness.config import digest as code
from htbench.harness.errors import UsageError
from htbench.harness.show.numbers import memory
from htbench.harness.store.layout import STORE

LARGEST = 200 * 2**20  # bytes of a copy
_OUTPUT = (".log", ".out", ".err")  # of files that a shell writes beside a program
_TOP = "program:"  # a line of a sweep file of a program, which is none of the program's files


def list_files(folder: Path) -> dict[str, Path]:
    """The files to copy, by their paths in the folder: those that git tracks or would add, else all.

    Neither sweep files of programs nor stores nor logs are among them: they change while a sweep runs.

    Raises:
        UsageError: there is no such folder, or it is too large.
    """
    if not folder.is_dir():
        raise UsageError(f"There is no folder '{folder}', which the sweep file names as that of its program.")
    # A folder may say in its .git which program tells git of changes; that would run here.
    git = ("git", "-c", "core.fsmonitor=false", "-C", str(folder))
    asked = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run([*git, *asked], capture_output=True, text=True)
    names = [name for name in listed.stdout.split("\0") if name]
    if listed.returncode:
        names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
        names = [
            name
            for name in names
            if not any(part.startswith((".", "__pycache__")) for part in Path(name).parts)
        ]
    stores = tuple(name.removesuffix(STORE) for name in names if name.endswith(f"/{STORE}"))
    names = [name for name in names if not name.startswith(stores) and not name.endswith(_OUTPUT)]
    paths = {name: folder / name for name in sorted({*names})}
    files = {name: path for name, path in paths.items() if path.is_file() and not _is_sweep(path)}
    sizes = {name: path.stat().st_size for name, path in files.items()}
    if sum(sizes.values()) > LARGEST:
        largest = max(sizes, key=sizes.__getitem__)
        raise UsageError(
            f"A copy of '{folder}', the program's folder, would take {memory(sum(sizes.values()))}, the "
            f"largest file being '{largest}'; let git ignore data, and name it under `link`."
        )
    return files


def _is_sweep(path: Path) -> bool:
    return path.suffix in (".yaml", ".yml") and any(
        line.startswith(_TOP) for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    )


def digest(files: Mapping[str, Path], patterns: Iterable[str] = ("*",)) -> str:
    """Twelve hex digits over the names and the contents of the files that match one of some patterns.

    Comments and docstrings of Python do not count: who edits one wants the same runs.

    Raises:
        UsageError: a pattern matches none.
    """
    chosen = set[str]()
    for pattern in patterns:
        matching = {name for name in files if fnmatch(name, pattern)}
        if not matching:
            raise UsageError(f"program.code: no file of the program's folder is called like '{pattern}'.")
        chosen |= matching
    total = hashlib.sha256()
    for name in sorted(chosen):
        total.update(f"{name}\0".encode() + hashlib.sha256(_content(files[name])).digest())
    return total.hexdigest()[:12]


def _content(path: Path) -> bytes:
    """What a file holds; of Python what is executed, without comments and docstrings."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        return code.whole(path).encode()
    return path.read_bytes()
