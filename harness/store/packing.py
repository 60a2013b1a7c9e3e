"""Packs finished runs into archives of a thousand, and back. Every run is readable at every instant.

An archive is complete, durable and read back before the first file of its runs goes from its folder. Archives
that are not full, or have a run that was amended or comes back, are replaced by new ones, and removed once
those are in place and what comes back is on the disk. A killed command leaves runs in two places, with the
same bytes; the next one finishes its work. An archive stays that has other results of a run than those that
readers see: stores were copied into one another, and people must choose.
"""

import contextlib
import io
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import RunFailedError
from harness.store import Store, archive, copies
from harness.store.archive import Content, DamagedError, number_of
from harness.store.archives import numbered
from harness.store.layout import CHECKPOINT, WEIGHTS, packed_folder, run_keys
from harness.store.owner import Owner
from harness.system import atomic
from harness.system.folders import make_folder
from harness.system.links import OwnFile

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
        files = copies.paths(store.run_folder(key))
        if files.pop(WEIGHTS, None) is not None and not files:  # they are large and stay
            continue  # the rest is packed
        why = "pruned" if record.status == "pruned" else _why_not(store, key, files, older_than)
        if why:
            choice.left[why] += 1
        else:
            choice.keys.append(key)
    if len(wanted) > ended:
        choice.left["unfinished"] += len(wanted) - ended
    return choice


def _why_not(store: Store, key: str, files: Mapping[str, Path], older_than: float) -> str:
    """Why a finished run stays in its folder, in a word or two; empty if it can be packed."""
    if CHECKPOINT in files or any(atomic.is_temporary(path.name) for path in files.values()):
        return "with a checkpoint or temporary files"
    if whys := list(filter(None, (copies.unpackable(name, path) for name, path in files.items()))):
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


# --- pack ---


@dataclass
class Packing:
    """What is to do.

    Attributes:
        back: archive -> the keys of its runs that come back into their folders.
        runs: the keys of each new archive.
        replaced: the archives that go.
    """

    back: dict[Path, list[str]]
    runs: list[list[str]]
    replaced: list[Path]


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


def plan(store: Store, keys: Iterable[str], back: Collection[str] = ()) -> Packing:
    """What `pack` does.

    Args:
        store: the store.
        keys: the runs that are to be packed.
        back: packed runs that are to come back into their folders.

    Raises:
        DamagedError: an archive can't be read.
    """
    packed = store.packed.now()
    several = copies.several(store, packed.runs)
    amended = [key for key, run in several.items() if run.adds() and key not in back]
    fresh = dict.fromkeys([*keys, *amended])
    kept = {place for run in several.values() for place in run.contradictions()}
    counting = {
        path: [key for key in old.runs if packed.runs[key] is old] for path, old in packed.archives.items()
    }
    stale, short = set[Path](), set[Path]()
    for path, old in packed.archives.items():
        if path in kept and not counting[path]:
            continue  # there is nothing to take from it
        if len(counting[path]) < len(old.runs) or any(key in fresh or key in back for key in counting[path]):
            stale.add(path)
        elif len(counting[path]) < RUNS:
            short.add(path)
    merges = -(-sum(len(counting[path]) for path in short) // RUNS) < len(short)
    chosen = [path for path in counting if path in stale or (path in short and (fresh or stale or merges))]
    pool = list(dict.fromkeys(key for path in chosen for key in counting[path] if key not in back) | fresh)
    return Packing(
        back={path: come for path in chosen if (come := [key for key in counting[path] if key in back])},
        runs=[pool[start : start + RUNS] for start in range(0, len(pool), RUNS)],
        replaced=[path for path in chosen if path not in kept],
    )


def pack(store: Store, todo: Packing, begin: Begin, advance: Advance) -> None:
    """Carry out what `plan` says. The caller holds the lock `packing`.

    Args:
        store: the store.
        todo: what to do.
        begin: called with the name of each archive.
        advance: called once for each run.

    Raises:
        DamagedError: an archive can't be read.
        RunFailedError: a new one could not be read back.
    """
    for path, keys in todo.back.items():
        begin(str(path.relative_to(store.root)))
        for key in keys:
            _bring_back(store, key)
            atomic.crash_point("unpack")
            advance()
    write(store, todo.runs, begin, advance)
    atomic.crash_point("pack.merged")
    for path in todo.replaced:
        path.unlink(missing_ok=True)
    atomic.sync_folder(packed_folder(store.root))


def _bring_back(store: Store, key: str) -> None:
    run = copies.find(store, key)
    for name, content in run.files():
        restore(store.run_folder(key) / name, content)
    whole = run.merged()
    if whole is not None and whole != run.record:
        store.amend(key, lambda now: copies.completed(now, whole))


def restore(path: Path, content: Content) -> None:
    """Write a file with its time, unless the folder has another one, which is newer."""
    if not OwnFile(path).exists():
        make_folder(path.parent)
        atomic.write_from(path, io.BytesIO(content.data), content.modified)


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
    folder, signs = packed_folder(store.root), dict[str, Signs]()

    def contents(key: str) -> Iterator[tuple[str, Content]]:
        """Wherever the files are; what changes with those of the folder is noted before they are read."""
        signs[key] = {name: _sign(path) for name, path in copies.packable(store.run_folder(key)).items()}
        yield from copies.find(store, key).files()

    for keys in shares:
        number = max((number_of(path.name) for path in numbered(folder)), default=0) + 1
        begin(f"{folder.name}/{number:04d}")
        path = archive.write(folder, number, ((key, contents(key)) for key in keys))
        if not is_sound(path):
            path.unlink()
            raise RunFailedError(
                f"The archive '{path}' could not be read back as it was written, so it is gone again and "
                "every run is where it was; does the disk have errors?"
            )
        for key in keys:
            _clear(store, key, signs[key])
            advance()


def _sign(path: Path) -> tuple[int, int, int, int]:
    """Nobody can set back the last of them, the time of the last change of the inode."""
    file = path.stat()
    return file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns


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


def is_sound(path: Path) -> bool:
    """Whether all of an archive can be read."""
    with contextlib.suppress(DamagedError):
        made = archive.read(path)
        for key, names in made.runs.items():
            for name in names:
                made.read(key, name)
        return True
    return False
