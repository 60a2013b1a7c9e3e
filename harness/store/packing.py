"""Packs finished runs into archives of a thousand. Every run is readable at every instant.

An archive is complete, durable and read back before the first file of its runs goes from its folder. Archives
that are not full, or have a run that was amended, are replaced by new ones, and removed once those are in
place. A killed command leaves runs in two places, with the same bytes; the next one finishes its work.
An archive stays that has other results of a run than those that readers see: stores were copied into one
another, and people must choose.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import RunFailedError
from harness.store import Store, archive, copies
from harness.store.archive import Archive, Content, DamagedError, number_of
from harness.store.archives import numbered
from harness.store.layout import CHECKPOINT, WEIGHTS, packed_folder, run_keys
from harness.store.owner import Owner
from harness.system import atomic
from harness.system.folders import make_folder

RUNS = 1000  # of an archive

Begin = Callable[[str], object]  # called with the name of what is worked on now
Advance = Callable[[], object]  # called for each run
Signs = dict[str, tuple[int, int, int, int]]  # name -> what changes with a file: inode, size, two times


@dataclass
class Choice:
    """Which runs `pack` takes.

    Attributes:
        keys: of the runs.
        left: how many with a folder stay, by the reason.
    """

    keys: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)


def choose(store: Store, keys: Collection[str] | None = None, older_than: float = 0.0) -> Choice:
    """The finished runs that can be packed.

    A pruned run stays: another study may resume it. So does one whose owner may still be writing.

    Args:
        store: of the runs.
        keys: among these; None means all.
        older_than: only runs that ended so many seconds ago.
    """
    choice = Choice()
    wanted = [key for key in run_keys(store.root) if keys is None or key in keys]
    ended = 0
    for key, record in store.each_record(wanted):
        ended += 1
        paths = _paths(store.run_folder(key))
        if not paths and store.run_folder(key).joinpath(WEIGHTS).exists():
            continue  # the rest is packed
        why = "pruned" if record.status == "pruned" else _why_not(store, key, paths, older_than)
        if why:
            choice.left[why] += 1
        else:
            choice.keys.append(key)
    if len(wanted) > ended:
        choice.left["unfinished"] += len(wanted) - ended
    return choice


def _why_not(store: Store, key: str, paths: Mapping[str, Path], older_than: float) -> str:
    """Why a finished run stays in its folder, in a word or two; empty if it can be packed."""
    if CHECKPOINT in paths or any(map(atomic.is_temporary, (path.name for path in paths.values()))):
        return "with a checkpoint or temporary files"
    if whys := list(filter(None, (copies.unpackable(name, path) for name, path in paths.items()))):
        return min(whys)
    if older_than and time.time() - store.files(key).record.stat().st_mtime < older_than:
        return "too young"
    number = store.last_attempt(key)
    last = store.attempt(key, number)
    if number and not last.get("outcome"):
        owner = Owner.from_json(last.get("owner"))
        if store.alive(owner, store.files(key).attempt(number)):
            return "running"
    return ""


def _paths(folder: Path) -> dict[str, Path]:
    """The files in a run's folder by their names in an archive; the weights are large and stay."""
    return {name: path for name, path in sorted(copies.paths(folder).items()) if name != WEIGHTS}


# --- pack ---


@dataclass
class Packing:
    """What is to do.

    Attributes:
        runs: the keys of each new archive.
        replaced: the archives that go.
        gone: the runs whose files are in an archive already, as a command was killed; these files go.
    """

    runs: list[list[str]] = field(default_factory=list)
    replaced: list[Path] = field(default_factory=list)
    gone: dict[str, Signs] = field(default_factory=dict)


@contextmanager
def packing(store: Store, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold the lock of the archives, and remove what a killed holder has left.

    Args:
        store: the store.
        waiting: called once if another process holds the lock.
    """
    folder = packed_folder(store.root)
    make_folder(folder)
    with atomic.locked(folder / ".lock", waiting):
        atomic.remove_temporaries(folder)
        store.packed.look_again()
        yield


def plan(store: Store, keys: Iterable[str]) -> Packing:
    """What `pack` does with these runs.

    Raises:
        DamagedError: an archive can't be read.
    """
    packed, found, fresh = store.packed.now(), Packing(), dict[str, None]()
    for key in keys:
        signs = _packed(store, key, packed.runs.get(key))
        if signs is None:
            fresh[key] = None
        else:
            found.gone[key] = signs
    several = copies.several(store, packed.runs)
    fresh |= dict.fromkeys(key for key, run in several.items() if run.adds())
    kept = copies.contradicting(several.values())
    stale, short = [], []
    for one in packed.archives.values():
        own = [key for key in one.runs if packed.runs[key] is one]
        if one.path in kept and not own:
            continue  # there is nothing to take from it
        if len(own) < len(one.runs) or any(key in fresh for key in own):
            stale.append(one)
        elif len(own) < RUNS:
            short.append(one)
    merges = -(-sum(len(one.runs) for one in short) // RUNS) < len(short)
    chosen = {one.path for one in (*stale, *(short if fresh or stale or merges else ()))}
    old = [one for path, one in packed.archives.items() if path in chosen]
    pool = dict.fromkeys(key for one in old for key in one.runs if packed.runs[key] is one)
    found.runs = chunks(list(pool | fresh))
    found.replaced = [one.path for one in old if one.path not in kept]
    return found


def chunks(keys: Sequence[str]) -> list[list[str]]:
    """The keys in parts of a full archive."""
    return [list(keys[start : start + RUNS]) for start in range(0, len(keys), RUNS)]


def _packed(store: Store, key: str, own: Archive | None) -> Signs | None:
    """The files in the folder of a run, if its archive has them byte for byte; else None."""
    signs = Signs()
    for name, path in _paths(store.run_folder(key)).items():
        signs[name] = _sign(path)
        member = own.member(key, name) if own is not None else None
        if member is None or member.modified != signs[name][2] or member.crc != zlib.crc32(path.read_bytes()):
            return None
    return signs


def pack(store: Store, todo: Packing, begin: Begin, advance: Advance) -> None:
    """Carry out what `plan` says. The caller holds the lock `packing`.

    Args:
        store: the store.
        todo: what to do.
        begin: called with the name of each new archive.
        advance: called once for each run.
    """
    write(store, todo.runs, begin, advance)
    for key, signs in todo.gone.items():
        _clear(store, key, signs)
        advance()
    remove(store, todo.replaced)


def write(store: Store, shares: Iterable[Sequence[str]], begin: Begin, advance: Advance) -> None:
    """Write runs into new archives, from wherever they are, and clear their folders.

    Args:
        store: the store.
        shares: the keys of each archive.
        begin: called with the name of each archive.
        advance: called once for each run.

    Raises:
        RunFailedError: an archive could not be read back.
    """
    folder = packed_folder(store.root)
    for keys in shares:
        number = max((number_of(path.name) for path in numbered(folder)), default=0) + 1
        begin(f"{folder.name}/{number:04d}")
        signs = dict[str, Signs]()
        _read_back(archive.write(folder, number, ((key, _contents(store, key, signs)) for key in keys)))
        for key in keys:
            _clear(store, key, signs[key])
            advance()


def _read_back(path: Path) -> None:
    """Read all of a new archive, and remove it unless it is what was written.

    Raises:
        RunFailedError: it is not.
    """
    with contextlib.suppress(DamagedError):
        if is_sound(archive.read(path)):
            return
    path.unlink()
    raise RunFailedError(
        f"The archive '{path}' could not be read back as it was written, so it is gone again and every run "
        "is where it was; does the disk have errors?"
    )


def _contents(store: Store, key: str, signs: dict[str, Signs]) -> Iterator[tuple[str, Content]]:
    """The files of a run, wherever they are; notes in `signs` those of its folder before they are read."""
    signs[key] = {name: _sign(path) for name, path in copies.packable(store.run_folder(key)).items()}
    yield from copies.find(store, key).files()


def _sign(path: Path) -> tuple[int, int, int, int]:
    """Nobody can set back the last of them, the time of the last change of the inode."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _clear(store: Store, key: str, signs: Signs) -> None:
    """Remove the files that are in an archive, unless they have changed, and folders that are empty then."""
    folder = store.run_folder(key)
    with store.index.locked():  # `Records.amend` holds it
        for name, sign in signs.items():
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                if _sign(path) == sign:
                    path.unlink()
        for place, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):  # not empty
                os.rmdir(place)
    atomic.crash_point("pack.removed")


def remove(store: Store, paths: Iterable[Path]) -> None:
    """Remove archives whose runs are elsewhere."""
    atomic.crash_point("pack.merged")
    for path in paths:
        path.unlink(missing_ok=True)
    atomic.sync_folder(packed_folder(store.root))


def is_sound(one: Archive) -> bool:
    """Whether all of an archive can be read."""
    try:
        for key, names in one.runs.items():
            for name in names:
                one.read(key, name)
    except DamagedError:
        return False
    return True
