"""A copy of this code in the store, from which jobs run: editing the code afterwards doesn't change them.

    <root>/code/<version>/htbench/     the files of the package
    <root>/code/<version>/outside/     a user's own optimizers, models and tasks, next on the jobs' path
    <root>/code/<version>/digests.json what each of these files held (`sweeps/cluster/verify.py`)

The version is that of `harness.system.environment` and a hash of what the files hold: git counts no
untracked ones.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from htbench.harness.config import RunConfig, parts
from htbench.harness.errors import UsageError
from htbench.harness.show.numbers import memory
from htbench.harness.store.layout import code_folder
from htbench.harness.system import environment
from htbench.harness.system.atomic import temporaries, temporary_name
from htbench.harness.system.environment import CODE, PACKAGE, PACKAGES
from htbench.harness.system.folders import make_folder
from htbench.sweeps.cluster import verify

LARGEST = 200 * 2**20  # bytes of a whole snapshot; the code alone is a hundredth of that
OUTSIDE = Path("outside")


@dataclass(frozen=True)
class Snapshot:
    """A copy of the code.

    Attributes:
        folder: where it is; its name is the version.
        digest: the SHA-256 of its list of digests.
    """

    folder: Path
    digest: str


def version(root: Path, configs: Iterable[RunConfig] = ()) -> Snapshot:
    """The snapshot of the code as it is now, there or not.

    Args:
        root: the store.
        configs: of the runs that use it.
    """
    if CODE.parent == code_folder(root).resolve():  # a job submits, and runs from a snapshot
        return Snapshot(CODE, hashlib.sha256((CODE / verify.LIST).read_bytes()).hexdigest())
    return _named(code_folder(root), _digests(_files(root, configs)))


def take(root: Path, configs: Iterable[RunConfig] = ()) -> Snapshot:
    """Copy the code as it is now, unless there is a copy. For the arguments see `version`.

    Raises:
        UsageError: somebody has altered the copy, or the code is too large.
    """
    configs = list(configs)
    now = version(root, configs)
    if now.folder.exists():
        return _checked(now)
    make_folder(now.folder.parent)
    for leftover in temporaries(now.folder.parent, now.folder.name):
        shutil.rmtree(leftover, ignore_errors=True)  # of a process that died here; submissions hold a lock
    temporary = temporary_name(now.folder)
    files = _files(root, configs)
    for path, source in files.items():
        target = temporary / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)  # without its mode, so that others of a group can read it
    listed = _digests({path: temporary / path for path in files})
    (temporary / verify.LIST).write_bytes(listed)
    taken = _named(now.folder.parent, listed)  # the code may have been edited since
    if taken.folder.exists():
        shutil.rmtree(temporary)
        return _checked(taken)
    os.replace(temporary, taken.folder)
    return taken


def _checked(taken: Snapshot) -> Snapshot:
    if found := verify.altered(str(taken.folder.resolve()), taken.digest):
        raise UsageError(
            f"'{taken.folder / found}' is not what was copied there, so no job starts from this copy of the "
            f"code; remove '{taken.folder}' once no job works in it, and the next `submit` makes it anew."
        )
    return taken


def _digests(files: Mapping[Path, Path]) -> bytes:
    """The list of a snapshot: the SHA-256 of each file by its path."""
    found = {str(path): hashlib.sha256(file.read_bytes()).hexdigest() for path, file in files.items()}
    return json.dumps(found, indent=1, sort_keys=True).encode()


def _named(folder: Path, listed: bytes) -> Snapshot:
    digest = hashlib.sha256(listed).hexdigest()
    code = re.sub(r"[^\w.+-]+", "-", environment.code_version())
    return Snapshot(folder / f"{code}.{digest[:8]}", digest)


def _files(root: Path, configs: Iterable[RunConfig]) -> dict[Path, Path]:
    """The files of a snapshot: path in it -> file now."""
    store = root.resolve()
    found = {path.relative_to(CODE): path for path in _ours()}
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


def _ours() -> Iterator[Path]:
    """The files of htbench, in a clone those behind the links."""
    yield from PACKAGE.iterdir()
    for name in PACKAGES:
        yield from (path for path in (PACKAGE / name).rglob("*") if "__pycache__" not in path.parts)
