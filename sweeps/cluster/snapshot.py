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
from collections.abc import Iterable, Mapping
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


def name_snapshot(root: Path, configs: Iterable[RunConfig] = ()) -> Snapshot:
    """The name and the digest of a snapshot of the code as it is now; its folder may not exist.

    Args:
        root: the store.
        configs: of the runs that use it.
    """
    if CODE.parent == code_folder(root).resolve():  # a job submits, and runs from a snapshot
        return Snapshot(CODE, hashlib.sha256((CODE / verify.LIST).read_bytes()).hexdigest())
    return _make_snapshot(code_folder(root), _list_digests(_list_files(root, configs)))


def take(root: Path, configs: Iterable[RunConfig] = ()) -> Snapshot:
    """Copy the code as it is now, unless there is a copy. For the arguments see `name_snapshot`.

    Raises:
        UsageError: somebody has altered the copy, or the code is too large.
    """
    configs = list(configs)
    current = name_snapshot(root, configs)
    if current.folder.exists():
        return _check_unaltered(current)
    folder = current.folder.parent
    make_folder(folder)
    for leftover in temporaries(folder, current.folder.name):
        shutil.rmtree(leftover, ignore_errors=True)  # of a process that died here; submissions hold a lock
    temporary = temporary_name(current.folder)
    files = _list_files(root, configs)
    for path, source in files.items():
        target = temporary / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)  # without its mode, so that others of a group can read it
    digests = _list_digests({path: temporary / path for path in files})
    (temporary / verify.LIST).write_bytes(digests)
    copied = _make_snapshot(folder, digests)  # the code may have been edited since
    if copied.folder.exists():
        shutil.rmtree(temporary)
        return _check_unaltered(copied)
    os.replace(temporary, copied.folder)
    return copied


def _check_unaltered(code: Snapshot) -> Snapshot:
    if path := verify.find_altered(str(code.folder.resolve()), code.digest):
        raise UsageError(
            f"'{code.folder / path}' is not what was copied there, so no job starts from this copy of the "
            f"code; remove '{code.folder}' once no job works in it, and the next `submit` makes it anew."
        )
    return code


def _list_digests(files: Mapping[Path, Path]) -> bytes:
    """The list of a snapshot: the SHA-256 of each file by its path."""
    digests = {str(path): hashlib.sha256(file.read_bytes()).hexdigest() for path, file in files.items()}
    return json.dumps(digests, indent=1, sort_keys=True).encode()


def _make_snapshot(folder: Path, digests: bytes) -> Snapshot:
    digest = hashlib.sha256(digests).hexdigest()
    code = re.sub(r"[^\w.+-]+", "-", environment.code_version())
    return Snapshot(folder / f"{code}.{digest[:8]}", digest)


def _list_files(root: Path, configs: Iterable[RunConfig]) -> dict[Path, Path]:
    """The files of a snapshot: path in it -> file now. In a clone those of htbench are behind links."""
    store, sources = root.resolve(), [*PACKAGE.iterdir()]
    for name in PACKAGES:
        sources += [path for path in (PACKAGE / name).rglob("*") if "__pycache__" not in path.parts]
    candidates = {path.relative_to(CODE): path for path in sources}
    candidates |= {OUTSIDE / path: source for path, source in parts.files(configs).items()}
    files = {
        path: source
        for path, source in sorted(candidates.items())
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
