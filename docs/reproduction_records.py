"""Compact records: of each sweep that a page is made of, one small archive that is a store again.

    python -m docs.reproduction_records --root STORE nano-imagenet ...    writes docs/reproduction/records/

An archive has the plan of a sweep and of each run what tables and figures read: record, curve, spectra, and
of fresh seeds the test split item by item. There is no second format: unpacked side by side they are a store
that every command reads, and records are still held against their curves. Logs, attempts and weights stay
out. Same runs, same bytes.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.store import Store
from harness.store.points import REPLICATE, read_points

PLACE = Path(__file__).with_name("reproduction") / "records"
_KEPT = ("record.json", "metrics.jsonl", "spectra.jsonl")
_OF_REPLICAS = ("test_items.bin",)
_SUFFIX = ".tar.xz"


def write(store: Store, sweep: str, folder: Path = PLACE) -> Path:
    """Write the archive of a sweep.

    Raises:
        UsageError: the sweep is unknown or its plan is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{sweep}{_SUFFIX}"
    with tarfile.open(place, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as archive:
        for path in _files(store, sweep):
            content = path.read_bytes()
            member = tarfile.TarInfo(path.relative_to(store.root).as_posix())
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return place


def _files(store: Store, sweep: str) -> Iterator[Path]:
    """The files of a sweep; those of one kind stand together, since they are alike."""
    points = [point for point in read_points(store.root, sweep) if point.key]
    plan = store.root / "sweeps" / sweep
    yield from (store.root / "store.json", plan / "points.jsonl", plan / "spec.yaml")
    fresh = {point.key for point in points if point.stage == REPLICATE}
    for name in (*_KEPT, *_OF_REPLICAS):
        for key in sorted(fresh if name in _OF_REPLICAS else {point.key for point in points}):
            path = store.files(key).record.with_name(name)
            if path.is_file():
                yield path


def sweeps(folder: Path = PLACE) -> list[str]:
    """The sweeps that have an archive."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))


def unpacked(target: Path, wanted: Iterable[str], folder: Path = PLACE) -> Store:
    """A store with the runs of some archives, in an empty folder."""
    for sweep in wanted:
        with tarfile.open(folder / f"{sweep}{_SUFFIX}") as archive:
            archive.extractall(target, filter="data")
    return Store(target)


def main(words: Sequence[str] | None = None) -> int:
    """Write archives."""
    parser = argparse.ArgumentParser(prog="python -m docs.reproduction_records", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the store, which is only read")
    parser.add_argument("sweeps", nargs="+", help="names of its sweeps")
    args = parser.parse_args(words)
    for sweep in args.sweeps:
        place = write(Store(args.root), sweep)
        print(f"{place}: {place.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
