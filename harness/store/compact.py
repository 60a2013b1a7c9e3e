"""Compact records: archives that are a store again once they lie unpacked side by side.

`docs/reproduction_records.py` makes one for a sweep: its plan, and of each run what tables and figures read.
Anybody may have made an archive, so only plain files of runs and plans leave it, for a folder of their own.
"""

import lzma
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from harness.errors import UsageError
from harness.store.archive import LARGEST
from harness.store.layout import RUNS, STORE, SWEEPS

SUFFIX = ".tar.xz"


def unpack(archive: Path, target: Path) -> None:
    """Put the files of an archive below a folder.

    Raises:
        UsageError: it can't be read to its end.
    """
    try:
        with tarfile.open(archive, "r:xz") as members:
            for member in members:
                parts = PurePosixPath(member.name).parts
                ours = parts[:1] in ((RUNS,), (SWEEPS,), (STORE,)) and ".." not in parts
                file = members.extractfile(member) if member.isreg() and ours else None
                if file is not None and member.size <= LARGEST:
                    path = target.joinpath(*parts)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(file.read())
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UsageError(f"'{archive}' can't be read as an archive of compact records: {error}") from None


@contextmanager
def opened(place: Path) -> Iterator[Path]:
    """The root of a store, for as long as the context lasts: `place` itself, or what it unpacks to.

    Args:
        place: a store, an archive of compact records, or a folder of some.
    """
    archives = [place] if place.is_file() else sorted(place.glob(f"*{SUFFIX}"))
    if not archives or (place / RUNS).exists():
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="htbench-") as folder:
        for archive in archives:
            unpack(archive, Path(folder))
        yield Path(folder)
